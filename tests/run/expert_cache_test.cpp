// Mixtures larger than what may be in memory: the same bits, no more bytes than allowed, and files
// that fail while a model runs.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "model/synthetic.h"
#include "run/decoder.h"

namespace onepass::test::expert_cache_test {
namespace {

using llm::Decoder;
using llm::Model;

// Counts what is read, and fails when told to.
class Watched final : public llm::WeightSource {
 public:
  Watched(const char* architecture, DType type)
      : source_(llm::SyntheticSource::create({.name = "watched",
                                              .architecture = architecture,
                                              .dim = 64,
                                              .layers = 3,
                                              .heads = 4,
                                              .kv_heads = 2,
                                              .head_dim = 16,
                                              .ffn = 96,
                                              .vocab = 97,
                                              .rope_base = 10000.0f,
                                              .experts = 16,
                                              .experts_used = 2,
                                              .expert_ffn = 96},
                                             type, 3)) {}
  const llm::ModelConfig& config() const { return source_.config(); }
  std::optional<llm::StoredTensor> find(std::string_view name) const override {
    return source_.find(name);
  }
  std::vector<llm::StoredTensor> stored() const override { return source_.stored(); }
  const llm::Harmless* harmless(std::string_view name) const override {
    return source_.harmless(name);
  }
  Status read(const llm::StoredTensor& t, std::uint64_t offset,
              std::span<std::byte> out) const override {
    bytes += out.size();
    if (fails) return fail(ErrorCode::io, "read " + t.name + ": the disk is gone");
    return source_.read(t, offset, out);
  }

  mutable std::atomic<std::uint64_t> bytes{0};
  std::atomic<bool> fails{false};

 private:
  llm::SyntheticSource source_;
};

struct Mixture {
  const char* architecture;
  DType type;
};
void PrintTo(const Mixture& m, std::ostream* out) { *out << m.architecture << " " << name(m.type); }

class ExpertCache : public testing::TestWithParam<Mixture> {
 protected:
  std::shared_ptr<Watched> source_ =
      std::make_shared<Watched>(GetParam().architecture, GetParam().type);
  Device device_ = Device::open("cpu").value();
  std::vector<std::uint32_t> tokens_ = [] {
    std::vector<std::uint32_t> list;
    for (std::uint32_t i = 0; i < 40; ++i) list.push_back(i * 29 % 97);
    return list;
  }();

  std::uint64_t all_bytes() const {
    return Model::load(device_, source_->config(), *source_).value()->weight_bytes();
  }
  Result<std::shared_ptr<const Model>> with_budget(std::uint64_t bytes) const {
    return Model::load(device_, source_->config(), *source_, {bytes, source_});
  }
  // After every token.
  std::vector<std::vector<float>> logits_of(std::shared_ptr<const Model> model) const {
    std::vector<std::vector<float>> list;
    auto d = Decoder::create(std::move(model), {.context = 64});
    EXPECT_TRUE(d) << d.error().to_string();
    const Status done =
        d->score(tokens_, [&](std::size_t, std::span<const float> logits) -> Status {
          list.emplace_back(logits.begin(), logits.end());
          return {};
        });
    EXPECT_TRUE(done) << done.error().to_string();
    return list;
  }
};

TEST_P(ExpertCache, GivesTheSameBitsInLessMemory) {
  const auto whole = Model::load(device_, source_->config(), *source_).value();
  const std::uint64_t all = whole->weight_bytes();
  const auto expected = logits_of(whole);
  std::uint32_t most = ~0u;
  for (const std::uint64_t part : {2u, 3u}) {
    const auto model = with_budget(all / part);
    ASSERT_TRUE(model) << model.error().to_string();
    EXPECT_LE((*model)->weight_bytes(), all / part);
    EXPECT_GT((*model)->weight_bytes(), all / part / 2);
    EXPECT_LT((*model)->most_rows(), most);
    most = (*model)->most_rows();
    const auto got = logits_of(*model);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(std::memcmp(got[i].data(), expected[i].data(), got[i].size() * sizeof(float)), 0)
          << "token " << i << " of " << part;
    }
  }
  EXPECT_LE(most, 4u);
}

TEST_P(ExpertCache, KeepsWhatIsUsedAgain) {
  const auto model = with_budget(all_bytes() / 2).value();
  auto d = Decoder::create(model, {.context = 64}).value();
  ASSERT_TRUE(d.append(std::span(tokens_).first(1)));
  const std::uint64_t before = source_->bytes;
  ASSERT_TRUE(d.truncate(0));
  ASSERT_TRUE(d.append(std::span(tokens_).first(1)));
  EXPECT_EQ(source_->bytes, before) << "the same experts were read again";
  ASSERT_TRUE(d.append(std::span(tokens_).subspan(1)));
  EXPECT_GT(source_->bytes, before);
}

TEST_P(ExpertCache, AFailedReadFailsTheCall) {
  const auto model = with_budget(all_bytes() / 2).value();
  auto d = Decoder::create(model, {.context = 64}).value();
  ASSERT_TRUE(d.append(std::span(tokens_).first(1)));
  source_->fails = true;
  const Status done = d.append(std::span(tokens_).subspan(1));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::io);
  EXPECT_NE(done.error().message.find("the disk is gone"), std::string::npos);
}

TEST_P(ExpertCache, ABudgetThatIsTooSmallIsRefused) {
  const auto model = with_budget(all_bytes() / 20);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::limit);
}

INSTANTIATE_TEST_SUITE_P(Llm, ExpertCache,
                         testing::Values(Mixture{"qwen3moe", DType::q4_0},
                                         Mixture{"gpt-oss", DType::mxfp4},
                                         Mixture{"gpt-oss", DType::f32}));

}  // namespace
}  // namespace onepass::test::expert_cache_test
