// Runs conformance cases on the devices of this machine.
//
//   conformance_tests --set ci                         every case, best path, 2 threads
//   conformance_tests --set subset                     600 cases, every path, 1, 2, 3, 8 threads
//   conformance_tests --set full --device cuda:0 --filter attention
//   conformance_tests --device cuda-emu               CUDA kernels on the host, no GPU needed
//   conformance_tests --device vulkan:0 --subgroup 32  launches as for subgroups of 32
//   conformance_tests --write-support docs/support.md | --check-support docs/support.md
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "conformance/runner.h"
#include "conformance/support.h"
#include "onepass/backends/cuda.h"

namespace onepass::conformance {
namespace {

constexpr std::size_t subset_size = 600;

struct Options {
  std::string set = "ci";
  std::vector<std::string> devices{};
  std::vector<std::string> paths{};
  std::vector<std::uint32_t> threads{};
  std::string filter{};
  std::size_t shard = 0, shards = 1;
  CudaOptions cuda;
  VulkanOptions vulkan;
  bool list = false;
  std::string write_support{}, check_support{};
};

std::vector<Case> all_cases(Set set) {
  std::vector<Case> cases;
  for (const auto add :
       {add_elementwise, add_norm, add_softmax, add_rope, add_matmul, add_quantize, add_attention,
        add_decode, add_kv, add_embed, add_sample, add_move, add_moe, add_fused}) {
    add(set, cases);
  }
  return cases;
}

// One case of every op and format, then of the families with the most to get wrong in turn: which,
// their names decide.
std::vector<Case> subset_of(std::vector<Case> cases) {
  std::map<std::string, std::vector<Case>> groups{{"attention", {}}, {"fused", {}},  {"kv", {}},
                                                  {"matmul", {}},    {"moe", {}},    {"norm", {}},
                                                  {"rope", {}},      {"softmax", {}}};
  std::set<std::tuple<Op, std::uint32_t, Format>> seen;
  std::vector<Case> subset;
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return hash(a.name) < hash(b.name); });
  for (Case& c : cases) {
    if (seen.insert({c.op, c.form, c.format}).second) {
      subset.push_back(std::move(c));
    } else if (const auto group = groups.find(c.family); group != groups.end()) {
      group->second.push_back(std::move(c));
    }
  }
  for (std::size_t round = 0; subset.size() < subset_size; ++round) {
    const std::size_t before = subset.size();
    for (auto& [key, group] : groups) {
      if (round < group.size() && subset.size() < subset_size) {
        subset.push_back(std::move(group[round]));
      }
    }
    if (subset.size() == before) break;
  }
  return subset;
}

struct FamilyCount {
  std::size_t cases = 0, runs = 0, unsupported = 0, failed = 0;
};
struct Tally {
  std::map<std::string, FamilyCount> families;
  std::map<std::string, double> worst;  // by "op format device"
  std::size_t failures = 0;
};

void report(Tally& tally, const Case& c, const std::string& target, const std::string& what) {
  ++tally.families[c.family].failed;
  if (++tally.failures <= 40) {
    std::printf("FAILED %s on %s: %s\n", c.name.c_str(), target.c_str(), what.c_str());
  }
}

void run_case(const Case& c, const Target& base, const std::vector<Target>& targets, Tally& tally) {
  FamilyCount& family = tally.families[c.family];
  ++family.cases;
  const Prepared p = c.prepare({});
  const auto mode = static_cast<unsigned>(c.close        ? 2
                                          : c.fused != 0 ? 1 + hash(c.name) % 2
                                                         : hash(c.name) % 3);
  const auto worst = [&](const Target& t, double ratio) {
    const std::string device = t.name().substr(0, t.name().find('/'));
    double& w = tally.worst[label(info(c.op).name, " ", name(c.format), " ", device)];
    w = std::max(w, ratio);
  };
  constexpr std::byte poisons[] = {std::byte{0xff}, std::byte{0x3f}};

  std::vector<Expect> base_expected;
  Outcome reference;
  if (base.supports(c)) {
    base_expected = p.expect(base.quantizes(c));
    reference = base.run(p, poisons[0], 0);
    ++family.runs;
    std::string error = reference.error;
    if (error.empty()) worst(base, check(p, base_expected, reference, poisons[0], error));
    if (!error.empty()) report(tally, c, base.name(), error);
  }
  std::size_t turn = 1;
  std::string path;  // of the target before
  for (const Target& target : targets) {
    if (!target.supports(c)) {
      ++family.unsupported;
      continue;
    }
    const std::byte poison = poisons[turn++ % 2];
    const bool quantizes = target.quantizes(c);
    const bool same_input = base.supports(c) && quantizes == base.quantizes(c);
    const std::vector<Expect> expected = same_input ? base_expected : p.expect(quantizes);
    const Outcome got = target.run(p, poison, mode);
    ++family.runs;
    std::string error = got.error;
    const std::uint32_t fused = c.fused + (quantizes ? 1 : 0);
    if (error.empty() && c.fused != 0 && got.dispatches != fused) {
      error = label("not fused: ", got.dispatches, " dispatches, expected ", fused);
    }
    if (error.empty()) worst(target, check(p, expected, got, poison, error));
    if (error.empty() && same_input && reference.error.empty()) {
      error = compare(p, expected, reference, got, target.is_cpu());
      if (!error.empty()) error = "against " + base.name() + ": " + error;
    }
    const std::string this_path = target.name().substr(0, target.name().find('/'));
    // On other devices the kernel, and with it the order of sums, may depend on the rows.
    if (error.empty() && target.is_cpu() && c.rows > 1 && this_path != path) {
      const auto row = static_cast<std::uint32_t>(hash(c.name + " row") % c.rows);
      const Prepared one = c.prepare(row);
      const Outcome alone = target.run(one, poisons[turn % 2], mode);
      ++family.runs;
      error = alone.error.empty() ? compare_row(p, got, one, alone, row, c.rows) : alone.error;
    }
    path = this_path;
    if (!error.empty()) report(tally, c, target.name(), error);
  }
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

std::optional<std::uint32_t> number(const std::string& text) {
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != text.npos) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(std::stoul(text));
}

bool parse(int argc, char** argv, Options& o) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--list") {
      o.list = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const std::string value = argv[++i];
    if (flag == "--set" && (value == "ci" || value == "subset" || value == "full")) {
      o.set = value;
    } else if (flag == "--device") {
      o.devices = split(value);
    } else if (flag == "--paths") {
      o.paths = value == "all" ? present_paths() : split(value);
    } else if (flag == "--threads") {
      for (const std::string& part : split(value)) {
        const auto n = number(part);
        if (!n) return false;
        o.threads.push_back(*n);
      }
    } else if (flag == "--filter") {
      o.filter = value;
    } else if (flag == "--edges" && (value == "plain" || value == "best")) {
      o.cuda.plain_edges = value == "plain";
    } else if (flag == "--memory" && (value == "exact" || value == "best")) {
      o.cuda.exact_memory = value == "exact";
    } else if (flag == "--subgroup" && number(value)) {
      o.vulkan.subgroup_size = *number(value);
    } else if (flag == "--shard") {
      const std::size_t slash = value.find('/');
      const auto index = number(value.substr(0, slash));
      const auto count = slash == value.npos ? index : number(value.substr(slash + 1));
      if (!index || !count || *index < 1 || *index > *count) return false;
      o.shard = *index - 1;
      o.shards = *count;
    } else if (flag == "--write-support") {
      o.write_support = value;
    } else if (flag == "--check-support") {
      o.check_support = value;
    } else {
      return false;
    }
  }
  return true;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

int support(const Options& o) {
  const std::vector<Case> cases = all_cases(Set::ci);
  const std::string& path = o.write_support.empty() ? o.check_support : o.write_support;
  const std::string old = read_file(path), now = support_document(old, cases);
  int status = 0;
  for (const std::string& kernel : kernels_without_cases(cases)) {
    std::printf("kernel %s has no conformance case\n", kernel.c_str());
    status = 1;
  }
  if (!o.write_support.empty()) {
    std::ofstream out(path);
    out << now;
    return out ? status : 1;
  }
  if (old != now) {
    std::printf("%s is not what the kernel tables say; run conformance_tests --write-support\n",
                path.c_str());
    status = 1;
  }
  return status;
}

void print(const Tally& tally, double seconds) {
  FamilyCount all;
  std::printf("\n%-12s %8s %8s %12s %8s\n", "family", "cases", "runs", "unsupported", "failed");
  const auto line = [](const char* family, const FamilyCount& n) {
    std::printf("%-12s %8zu %8zu %12zu %8zu\n", family, n.cases, n.runs, n.unsupported, n.failed);
  };
  for (const auto& [family, n] : tally.families) {
    line(family.c_str(), n);
    all.cases += n.cases;
    all.runs += n.runs;
    all.unsupported += n.unsupported;
    all.failed += n.failed;
  }
  line("all", all);
  std::printf("\nlargest error / bound (0: exact)\n");
  for (const auto& [key, ratio] : tally.worst) std::printf("%-48s %.3f\n", key.c_str(), ratio);
  std::printf("\n%zu cases, %zu runs, %zu failed, %.1f s\n", all.cases, all.runs, all.failed,
              seconds);
}

int run(Options o) {
  const bool is_subset = o.set == "subset";
  if (o.devices.empty()) o.devices = present_devices();
  if (o.paths.empty()) o.paths = is_subset ? present_paths() : std::vector<std::string>{"best"};
  if (o.threads.empty()) {
    o.threads = is_subset ? std::vector<std::uint32_t>{1, 2, 3, 8} : std::vector<std::uint32_t>{2};
  }
  std::vector<Case> cases = all_cases(o.set == "full" ? Set::full : Set::ci);
  if (is_subset) cases = subset_of(std::move(cases));

  const auto open = [](const TargetOptions& options) {
    Result<Target> target = Target::open(options);
    if (!target) std::fprintf(stderr, "%s\n", target.error().to_string().c_str());
    return target;
  };
  const Result<Target> base = open({"cpu", "base", 1});
  if (!base) return 2;
  std::vector<Target> targets;
  for (const std::string& device : o.devices) {
    for (const std::string& path : o.paths) {
      for (const std::uint32_t threads : o.threads) {
        Result<Target> target = open({device, path, threads, o.cuda, o.vulkan});
        if (!target) return 2;
        targets.push_back(std::move(*target));
        if (device != "cpu") break;
      }
      if (device != "cpu") break;
    }
  }

  const auto begin = std::chrono::steady_clock::now();
  Tally tally;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    if (i % o.shards != o.shard || c.name.find(o.filter) == c.name.npos) continue;
    if (o.list) {
      std::printf("%s\n", c.name.c_str());
    } else {
      run_case(c, *base, targets, tally);
    }
  }
  if (o.list) return 0;
  print(tally, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return tally.failures == 0 && !tally.families.empty() ? 0 : 1;
}

}  // namespace
}  // namespace onepass::conformance

int main(int argc, char** argv) {
  using namespace onepass::conformance;
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: conformance_tests [--set ci|subset|full] [--device NAME,...]\n"
                 "  [--paths best|all|base,avx2,...] [--threads N,...] [--filter TEXT]\n"
                 "  [--edges plain|best] [--memory exact|best] [--subgroup N]\n"
                 "  [--shard I/N] [--list] [--write-support FILE] [--check-support FILE]\n");
    return 2;
  }
  if (!options.write_support.empty() || !options.check_support.empty()) return support(options);
  return run(options);
}
