#include "conformance/support.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "backends/cpu/cpu.h"
#include "conformance/runner.h"
#include "core/features.h"
#include "core/tables.h"
#ifdef ONEPASS_TEST_CUDA_EMU
#include "backends/cuda/cuda.h"
#endif
#ifdef ONEPASS_TEST_VULKAN
#include "backends/vulkan/vulkan.h"
#endif

namespace onepass::conformance {
namespace {

constexpr const char* head =
    "# Support\n"
    "\n"
    "Which kernel an op gets for a format, a column per device. Written by\n"
    "`conformance_tests --write-support docs/support.md` from the kernel tables; a test compares.\n"
    "On the CPU a column is what the processor has and a cell the instruction set of the kernel "
    "that\n"
    "runs there; `yes` is a kernel without variants, and – none: the op returns the error\n"
    "`unsupported`. *cases* counts the conformance cases of the ci set.\n";

const char* set_of(const KernelRow& row) {
  for (const CpuPath& path : cpu_paths()) {
    if ((row.needs & ~path.features) == 0) return path.name;
  }
  return "?";
}

// The op refuses packed rows, although its kernels, which count bytes, have rows for every format.
bool is_refused(Op op, Format format) { return op == Op::gather && is_packed(format); }

struct Column {
  std::string name;
  std::vector<KernelRow> rows;
  std::uint32_t features;
  bool is_cpu;

  std::string cell(Op op, Format format, std::uint32_t form) const {
    if (is_refused(op, format)) return "–";
    for (const KernelRow& row : rows) {
      if (row.op != op || row.format != format || (row.needs & ~features) != 0) continue;
      if (!has_forms(row, form)) continue;
      return is_cpu ? set_of(row) : "yes";
    }
    return "–";
  }
};

struct Section {
  std::string title;
  std::vector<Column> columns;
};

// Of this build. The CUDA kernels are known where the emulated card is, those of Vulkan where it is
// compiled in.
Section own_section() {
  const KernelTable cpu = cpu_kernel_rows();
#if defined(__aarch64__)
  Section section{"aarch64", {}};
#else
  Section section{"x86-64", {}};
#endif
  for (const CpuPath& path : cpu_paths()) {
    if (!path.is_compiled) continue;
    section.columns.push_back(
        {std::string("CPU ") + path.name, {cpu.begin(), cpu.end()}, path.features, true});
  }
#ifdef ONEPASS_TEST_CUDA_EMU
  Column cuda{"CUDA", {}, ~0u, false};
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    cuda.rows.insert(cuda.rows.end(), image.rows.begin(), image.rows.end());
  }
  section.columns.push_back(std::move(cuda));
#endif
#ifdef ONEPASS_TEST_VULKAN
  const KernelTable vulkan(vulkan::kernel_lists());
  section.columns.push_back({"Vulkan", {vulkan.begin(), vulkan.end()}, ~0u, false});
#endif
  return section;
}

using Counts = std::map<std::tuple<Op, std::uint32_t, Format>, std::size_t>;  // form before format

Counts counts_of(const std::vector<Case>& cases) {
  Counts counts;
  for (const Case& c : cases) ++counts[{c.op, c.form, c.format}];
  return counts;
}

// Every op as it is, and in the forms that there are cases of.
std::set<std::pair<Op, std::uint32_t>> asked_for(const Counts& counts) {
  std::set<std::pair<Op, std::uint32_t>> all;
  for (std::uint16_t o = 0; o < static_cast<std::uint16_t>(Op::count_); ++o) {
    all.insert({static_cast<Op>(o), 0});
  }
  for (const auto& [key, count] : counts) all.insert({std::get<0>(key), std::get<1>(key)});
  return all;
}

std::vector<Format> all_formats() {
  return {
#define FORMAT(name, ggml_id, elements, bytes) formats::name,
#include "onepass/tables/formats.def"
#define LAYOUT(type, layout, elements, bytes, Form) formats::type##_##layout,
#include "onepass/tables/formats.def"
  };
}

std::string table(const Section& section, const Counts& counts) {
  std::string text = "\n## " + section.title + "\n\n| op | formats | cases |";
  std::string line = "|---|---|---|";
  for (const Column& column : section.columns) {
    text += " " + column.name + " |";
    line += "---|";
  }
  text += "\n" + line + "\n";
  for (const auto& [op, form] : asked_for(counts)) {
    struct Row {
      std::string cells, formats;
      std::size_t cases = 0;
    };
    std::vector<Row> rows;  // formats with equal cells share one
    for (const Format format : all_formats()) {
      std::string cells;
      bool any = false;
      for (const Column& column : section.columns) {
        const std::string cell = column.cell(op, format, form);
        any = any || cell != "–";
        cells += " " + cell + " |";
      }
      if (!any) continue;
      auto row =
          std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.cells == cells; });
      if (row == rows.end()) row = rows.insert(rows.end(), Row{cells, "", 0});
      row->formats += (row->formats.empty() ? "" : ", ") + std::string(name(format));
      const auto count = counts.find({op, form, format});
      row->cases += count == counts.end() ? 0 : count->second;
    }
    const std::string forms = form_text(form);
    for (const Row& row : rows) {
      text += label("| ", info(op).name, forms, " | ", row.formats, " | ", row.cases, " |",
                    row.cells, "\n");
    }
  }
  return text;
}

}  // namespace

std::string support_document(const std::string& old, const std::vector<Case>& ci_cases) {
  // Sections of the old document, by title.
  std::map<std::string, std::string> kept;
  std::vector<std::string> order;
  for (std::size_t at = old.find("\n## "); at != std::string::npos;) {
    const std::size_t next = old.find("\n## ", at + 1);
    const std::size_t line = old.find('\n', at + 1);
    const std::string title = old.substr(at + 4, line - at - 4);
    order.push_back(title);
    kept[title] = old.substr(at, next == std::string::npos ? next : next - at);
    at = next;
  }
  const Section section = own_section();
  if (kept.find(section.title) == kept.end()) order.push_back(section.title);
  kept[section.title] = table(section, counts_of(ci_cases));
  std::string text = head;
  for (const std::string& title : order) text += kept[title];
  return text;
}

std::vector<std::string> kernels_without_cases(const std::vector<Case>& ci_cases) {
  const Counts counts = counts_of(ci_cases);
  std::vector<std::string> missing;
  for (const KernelRow& row : cpu_kernel_rows()) {
    if (is_refused(row.op, row.format)) continue;
    const bool any = std::any_of(counts.begin(), counts.end(), [&](const auto& entry) {
      const auto& [op, form, format] = entry.first;
      return op == row.op && format == row.format && has_forms(row, form);
    });
    if (!any) missing.push_back(row.name);
  }
  return missing;
}

}  // namespace onepass::conformance
