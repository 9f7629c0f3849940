// Recorded passes through the C API.
#include <gmock/gmock.h>

#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "capi/support.h"
#include "support/heap.h"

namespace onepass::test {
namespace {

using testing::HasSubstr;

TEST(CApiRecord, ReplaysWhatWasRecorded) {
  const DeviceHandle device = open_cpu();
  const BufferHandle sum = create(device, 64 * 4), one = filled(device, std::vector<float>(64, 1));
  const RecorderHandle recorder = begin(device);
  ASSERT_OK(op(recorder, "add", {tensor(sum, {64}), tensor(one, {64}), tensor(sum, {64})}));
  EXPECT_EQ(read<float>(sum, 1)[0], 0.0f);  // nothing ran yet
  const PlanHandle plan = compile(recorder);
  for (int i = 0; i < 1000; ++i) ASSERT_OK(onepass_plan_run(plan.get()));
  EXPECT_EQ(read<float>(sum, 64), std::vector<float>(64, 1000.0f));
}

TEST(CApiRecord, SubmitsWithoutWaiting) {
  const DeviceHandle device = open_cpu();
  const BufferHandle sum = create(device, 64 * 4), one = filled(device, std::vector<float>(64, 1));
  const RecorderHandle recorder = begin(device);
  ASSERT_OK(op(recorder, "add", {tensor(sum, {64}), tensor(one, {64}), tensor(sum, {64})}));
  const PlanHandle plan = compile(recorder);
  std::vector<SubmissionHandle> submissions;
  for (int i = 0; i < 20; ++i) {
    onepass_submission* submission = nullptr;
    ASSERT_OK(onepass_plan_run_async(plan.get(), &submission));
    submissions.emplace_back(submission);
  }
  ASSERT_OK(onepass_submission_wait(submissions.back().get()));
  for (const SubmissionHandle& submission : submissions) {
    std::uint32_t done = 0;
    ASSERT_OK(onepass_submission_is_done(submission.get(), &done));
    EXPECT_EQ(done, 1u);
    EXPECT_OK(onepass_submission_wait(submission.get()));
  }
  EXPECT_EQ(read<float>(sum, 64), std::vector<float>(64, 20.0f));
}

TEST(CApiRecord, FusesOverScratchAndTellsThePlan) {
  const DeviceHandle device = open_cpu();
  constexpr std::uint32_t dim = 64;
  const BufferHandle x = filled(device, std::vector<float>(dim, -5)),
                     weight = filled(device, std::vector<float>(dim, 1)),
                     gate = filled(device, std::vector<float>(dim, 2)),
                     out = create(device, 4 * dim);
  const auto record = [&](const onepass_plan_options* options) {
    const RecorderHandle recorder = begin(device);
    const std::uint32_t shape[] = {1, dim};
    onepass_tensor normed{};
    EXPECT_OK(onepass_recorder_scratch(recorder.get(), ONEPASS_F32, 2, shape, &normed));
    EXPECT_EQ(normed.buffer, nullptr);
    EXPECT_NE(normed.scratch, 0u);
    EXPECT_OK(op(recorder, "rms_norm", {tensor(x, {1, dim}), tensor(weight, {dim}), normed}));
    EXPECT_OK(op(recorder, "mul", {normed, tensor(gate, {1, dim}), tensor(out, {1, dim})}));
    onepass_plan* plan = nullptr;
    EXPECT_OK(onepass_recorder_compile(recorder.get(), options, &plan));
    return PlanHandle(plan);
  };
  auto separate = sized<onepass_plan_options>();
  separate.no_fuse = 1;
  separate.label = "separate";
  for (const bool fuse : {true, false}) {
    const PlanHandle plan = record(fuse ? nullptr : &separate);
    auto info = sized<onepass_plan_info>();
    ASSERT_OK(onepass_plan_get_info(plan.get(), &info));
    EXPECT_EQ(info.dispatches, fuse ? 1u : 2u);
    EXPECT_EQ(info.barriers, info.dispatches - 1);
    EXPECT_EQ(info.longest_path, info.dispatches);
    EXPECT_EQ(info.fused, fuse ? 1u : 0u);
    EXPECT_EQ(info.validated, 1u);
    ASSERT_OK(onepass_plan_run(plan.get()));
    EXPECT_NEAR(read<float>(out, dim)[dim - 1], -2.0f, 1e-4f);
  }
}

// One call of every op that the table names, with sound arguments.
struct OpCase {
  std::vector<onepass_tensor> tensors;
  onepass_op_options options = sized<onepass_op_options>();
};

class CApiOps : public testing::Test {
 protected:
  onepass_tensor f32(std::initializer_list<std::uint32_t> shape) {
    return make(shape, ONEPASS_F32);
  }
  onepass_tensor make(std::initializer_list<std::uint32_t> shape, onepass_dtype dtype) {
    onepass_tensor t = tensor({}, shape, dtype);
    std::uint64_t bytes = 0;
    EXPECT_OK(onepass_tensor_bytes(dtype, t.rank, t.shape, &bytes));
    if (dtype == ONEPASS_F32) {
      buffers_.push_back(filled(device_, counting(bytes / 4, 0.25f)));
    } else {
      buffers_.push_back(create(device_, bytes));
    }
    t.buffer = buffers_.back().get();
    return t;
  }
  static onepass_tensor none() { return onepass_tensor{}; }

  std::map<std::string, OpCase> cases() {
    std::map<std::string, OpCase> all;
    std::size_t count = 0;
    EXPECT_OK(onepass_op_count(&count));
    for (std::size_t i = 0; i < count; ++i) {
      auto info = sized<onepass_op_info>();
      EXPECT_OK(onepass_op_get_info(i, &info));
      const std::string tensors = info.tensors;
      if (tensors == "x out") all[info.name].tensors = {f32({2, 32}), f32({2, 32})};
      if (tensors == "a b out") {
        all[info.name].tensors = {f32({2, 32}), f32({2, 32}), f32({2, 32})};
      }
    }
    all["cast"].tensors = {f32({2, 32}), make({2, 32}, ONEPASS_F16)};
    all["quantize"].tensors = {f32({2, 32}), make({2, 32}, ONEPASS_Q8_0)};
    all["dequantize"].tensors = {make({2, 32}, ONEPASS_Q4_0), f32({2, 32})};
    all["argmax"].tensors = {f32({2, 32}), make({2}, ONEPASS_U32)};
    all["argsort"].tensors = {f32({2, 32}), make({2, 32}, ONEPASS_U32)};
    all["scale"].tensors = {f32({2, 32}), f32({2, 32})};
    all["scale"].options.factor = -3.0f;
    all["softcap"].tensors = {f32({2, 32}), f32({2, 32})};
    all["softcap"].options.cap = 30.0f;
    all["softmax"].tensors = {f32({2, 32}), none(), f32({2, 32})};
    all["softmax"].options.scale = 0.5f;
    all["rms_norm"].tensors = {f32({2, 32}), none(), f32({2, 32})};
    all["rms_norm"].options.eps = 1e-6f;
    all["l2_norm"].tensors = {f32({2, 32}), f32({2, 32})};
    all["layer_norm"].tensors = {f32({2, 32}), f32({32}), f32({32}), f32({2, 32})};
    all["add_rms_norm"].tensors = {f32({2, 32}), f32({2, 32}), f32({32}), f32({2, 32}),
                                   f32({2, 32})};
    all["norm_add"].tensors = {f32({2, 32}), f32({32}), f32({2, 32}), f32({2, 32})};
    all["matmul"].tensors = {f32({2, 32}), make({16, 32}, ONEPASS_F16), f32({2, 16})};
    all["matmul_id"].tensors = {f32({2, 32}), f32({3, 16, 32}), make({2, 2}, ONEPASS_U32),
                                f32({2, 2, 16})};
    all["gather"].tensors = {f32({4, 32}), make({3}, ONEPASS_U32), f32({3, 32})};
    all["transpose"].tensors = {f32({2, 32}), f32({32, 2})};
    all["slice"].tensors = {f32({2, 32}), f32({2, 8})};
    all["slice"].options.start = 24;
    all["put"].tensors = {f32({2, 8}), f32({2, 32})};
    all["put"].options.start = 24;
    all["concat"].tensors = {f32({2, 8}), f32({2, 24}), f32({2, 32})};
    all["top_k"].tensors = {f32({2, 32}), f32({2, 4}), make({2, 4}, ONEPASS_U32)};
    all["embed"].tensors = {make({8, 32}, ONEPASS_Q8_0), make({2}, ONEPASS_U32), f32({2, 32})};
    all["rope"].tensors = {f32({2, 1, 32}), make({2}, ONEPASS_U32), none(), f32({2, 1, 32})};
    all["rope"].options.rope_mode = ONEPASS_ROPE_NEOX;
    all["attention"].tensors = {f32({2, 2, 8}), f32({1, 1, 4, 8}), f32({1, 1, 4, 8}), none(),
                                f32({2, 2, 8})};
    all["attention"].options.kv_len = 4;
    return all;
  }

  DeviceHandle device_ = open_cpu();
  std::vector<BufferHandle> buffers_;
};

TEST_F(CApiOps, EveryOneRuns) {
  std::size_t count = 0;
  ASSERT_OK(onepass_op_count(&count));
  std::map<std::string, OpCase> all = cases();
  EXPECT_EQ(all.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    auto info = sized<onepass_op_info>();
    ASSERT_OK(onepass_op_get_info(i, &info));
    SCOPED_TRACE(info.name);
    ASSERT_EQ(all.count(info.name), 1u);
    const OpCase& one = all[info.name];
    const RecorderHandle recorder = begin(device_);
    ASSERT_OK(op(recorder, info.name, one.tensors, &one.options));
    const PlanHandle plan = compile(recorder);
    ASSERT_OK(onepass_plan_run(plan.get()));
  }
  auto info = sized<onepass_op_info>();
  EXPECT_FAILS(onepass_op_get_info(count, &info), ONEPASS_NOT_FOUND, "op ");
}

// Whatever is missing, of the wrong number or not taken is said, not ignored.
TEST_F(CApiOps, EveryOneChecksItsArguments) {
  std::size_t count = 0;
  ASSERT_OK(onepass_op_count(&count));
  std::map<std::string, OpCase> all = cases();
  for (std::size_t i = 0; i < count; ++i) {
    auto info = sized<onepass_op_info>();
    ASSERT_OK(onepass_op_get_info(i, &info));
    SCOPED_TRACE(info.name);
    const OpCase& one = all[info.name];
    std::istringstream names(info.tensors);
    std::string name;
    for (std::size_t t = 0; names >> name; ++t) {
      OpCase without = one;
      ASSERT_LT(t, without.tensors.size());
      without.tensors[t] = none();
      const RecorderHandle recorder = begin(device_);
      const onepass_result result = op(recorder, info.name, without.tensors, &without.options);
      if (name.back() == '?') {
        EXPECT_EQ(result, ONEPASS_OK) << name << onepass_error_message();
      } else {
        EXPECT_EQ(result, ONEPASS_INVALID_ARGUMENT) << name;
        EXPECT_THAT(onepass_error_message(), HasSubstr(name + " is missing"));
      }
    }
    OpCase more = one;
    more.tensors.push_back(none());
    EXPECT_FAILS(op(begin(device_), info.name, more.tensors, &more.options),
                 ONEPASS_INVALID_ARGUMENT, info.tensors);

    std::istringstream fields(info.options);
    const std::set<std::string> taken{std::istream_iterator<std::string>(fields), {}};
    OpCase set = one;
    set.options.start = 1;
    const onepass_result result = op(begin(device_), info.name, set.tensors, &set.options);
    if (taken.count("start") == 0) {
      EXPECT_EQ(result, ONEPASS_INVALID_ARGUMENT);
      EXPECT_THAT(onepass_error_message(), HasSubstr("takes no option start"));
    }
  }
}

TEST_F(CApiOps, ComputeWhatTheirOptionsSay) {
  const RecorderHandle recorder = begin(device_);
  auto scale = sized<onepass_op_options>(), start = scale, attend = scale;
  scale.factor = 0.0f;
  start.start = 2;
  const BufferHandle x = filled(device_, counting(8)), zero = filled(device_, counting(8)),
                     tail = create(device_, 16);
  ASSERT_OK(op(recorder, "scale", {tensor(x, {8}), tensor(zero, {8})}, &scale));
  ASSERT_OK(op(recorder, "slice", {tensor(x, {2, 4}), tensor(tail, {2, 2})}, &start));
  // Two rows that see one key, respectively all keys, with equal scores.
  const BufferHandle q = create(device_, 2 * 8 * 4), k = create(device_, 2 * 8 * 4),
                     v = filled(device_, counting(16)), causal = create(device_, 2 * 8 * 4),
                     full = create(device_, 2 * 8 * 4);
  attend.kv_len = 2;
  const auto attention = [&](const BufferHandle& out) {
    return op(recorder, "attention",
              {tensor(q, {2, 1, 8}),
               tensor(k, {1, 1, 2, 8}),
               tensor(v, {1, 1, 2, 8}),
               {},
               tensor(out, {2, 1, 8})},
              &attend);
  };
  ASSERT_OK(attention(causal));
  attend.full = 1;
  ASSERT_OK(attention(full));
  ASSERT_OK(onepass_plan_run(compile(recorder).get()));
  EXPECT_EQ(read<float>(zero, 8), std::vector<float>(8, 0.0f));
  EXPECT_EQ(read<float>(tail, 4), (std::vector<float>{2, 3, 6, 7}));
  EXPECT_EQ(read<float>(causal, 1)[0], 0.0f);
  EXPECT_NEAR(read<float>(causal, 9)[8], 4.0f, 1e-5f);
  EXPECT_NEAR(read<float>(full, 1)[0], 4.0f, 1e-5f);
}

TEST(CApiRecord, KeepsTheFirstError) {
  const DeviceHandle device = open_cpu();
  const BufferHandle a = create(device, 64);
  const RecorderHandle recorder = begin(device);
  EXPECT_FAILS(op(recorder, "ad", {tensor(a, {16}), tensor(a, {16}), tensor(a, {16})}),
               ONEPASS_NOT_FOUND, "'ad'");
  EXPECT_FAILS(op(recorder, "add", {tensor(a, {16}), tensor(a, {16}), tensor(a, {16})}),
               ONEPASS_NOT_FOUND, "'ad'");
  onepass_plan* plan = nullptr;
  EXPECT_FAILS(onepass_recorder_compile(recorder.get(), nullptr, &plan), ONEPASS_NOT_FOUND, "'ad'");
  EXPECT_EQ(plan, nullptr);
  EXPECT_FAILS(onepass_recorder_compile(recorder.get(), nullptr, &plan), ONEPASS_INVALID_STATE,
               "compiled already");
}

TEST(CApiRecord, RefusesTensorsThatCannotBe) {
  const DeviceHandle device = open_cpu(), other = open_cpu();
  const BufferHandle a = create(device, 64), foreign = create(other, 64);
  const auto refused = [&](onepass_tensor bad, const char* text) {
    EXPECT_FAILS(op(begin(device), "add", {tensor(a, {16}), bad, tensor(a, {16})}),
                 ONEPASS_INVALID_ARGUMENT, text);
  };
  refused(tensor(a, {17}), "needs 68 bytes");
  refused(tensor(a, {16}, ONEPASS_F32, 4), "needs 64 bytes at byte 4");
  refused(tensor(a, {16}, ONEPASS_F32, ~std::uint64_t{0}), "needs 64 bytes");
  refused(tensor(foreign, {16}), "another device");
  refused(tensor(a, {16}, static_cast<onepass_dtype>(99)), "unknown dtype 99");
  refused(tensor(a, {16}, ONEPASS_Q4_0), "no whole q4_0 blocks");
  refused(tensor(a, {0xffffffffu, 0xffffffffu, 0xffffffffu}), "2^64");
  refused(tensor(a, {8}), "add");
  onepass_tensor bad = tensor(a, {16});
  bad.rank = 5;
  refused(bad, "rank is 5");
  bad = tensor(a, {16});
  bad.scratch = 1;
  refused(bad, "in a buffer and in scratch");
  bad.buffer = nullptr;
  refused(bad, "no scratch 1");
  bad = tensor(a, {16});
  bad.reserved = 1;
  refused(bad, "reserved");
}

TEST(CApiRecord, HandlesCloseInAnyOrder) {
  DeviceHandle device = open_cpu();
  BufferHandle a = filled(device, counting(16)), out = create(device, 64);
  RecorderHandle recorder = begin(device);
  ASSERT_OK(op(recorder, "copy", {tensor(a, {16}), tensor(out, {16})}));
  PlanHandle plan = compile(recorder);
  recorder.reset();
  device.reset();
  ASSERT_OK(onepass_plan_run(plan.get()));
  EXPECT_EQ(read<float>(out, 16), counting(16));
  a.reset();
  EXPECT_EQ(onepass_plan_run(plan.get()), ONEPASS_STALE);
  onepass_submission* submission = nullptr;
  EXPECT_EQ(onepass_plan_run_async(plan.get(), &submission), ONEPASS_STALE);
  EXPECT_EQ(submission, nullptr);
  EXPECT_EQ(read<float>(out, 16), counting(16));
}

TEST(CApiRecord, TensorBytes) {
  const std::uint32_t shape[] = {3, 64};
  std::uint64_t bytes = 0;
  ASSERT_OK(onepass_tensor_bytes(ONEPASS_F16, 2, shape, &bytes));
  EXPECT_EQ(bytes, 384u);
  ASSERT_OK(onepass_tensor_bytes(ONEPASS_Q8_0, 2, shape, &bytes));
  EXPECT_EQ(bytes, 3u * 2 * 34);
  ASSERT_OK(onepass_tensor_bytes(ONEPASS_I32, 0, nullptr, &bytes));
  EXPECT_EQ(bytes, 4u);
  EXPECT_FAILS(onepass_tensor_bytes(ONEPASS_Q4_K, 2, shape, &bytes), ONEPASS_INVALID_ARGUMENT,
               "blocks of 256");
}

TEST(CApiNull, EveryPointerIsChecked) {
  const DeviceHandle device = open_cpu();
  const BufferHandle a = create(device, 64);
  const RecorderHandle recorder = begin(device);
  onepass_device* d = nullptr;
  onepass_buffer* b = nullptr;
  onepass_recorder* r = nullptr;
  onepass_plan* p = nullptr;
  onepass_submission* s = nullptr;
  onepass_model* m = nullptr;
  onepass_sequence* q = nullptr;
  std::uint64_t n = 0;
  std::size_t size = 0;
  std::uint32_t u = 0;
  float f = 0;
  char c = 0;
  void* memory = nullptr;
  onepass_tensor t{};
  const onepass_result results[] = {
      onepass_device_count(nullptr),
      onepass_device_list_entry(0, nullptr),
      onepass_device_open(nullptr, nullptr, &d),
      onepass_device_open("cpu", nullptr, nullptr),
      onepass_device_get_info(nullptr, nullptr),
      onepass_device_get_info(device.get(), nullptr),
      onepass_device_wait(nullptr),
      onepass_buffer_create(nullptr, 4, &b),
      onepass_buffer_create(device.get(), 4, nullptr),
      onepass_buffer_wrap(nullptr, &c, 1, &b),
      onepass_buffer_wrap(device.get(), nullptr, 1, &b),
      onepass_buffer_wrap(device.get(), &c, 1, nullptr),
      onepass_buffer_size(nullptr, &n),
      onepass_buffer_size(a.get(), nullptr),
      onepass_buffer_map(nullptr, &memory),
      onepass_buffer_map(a.get(), nullptr),
      onepass_buffer_write(nullptr, 0, &c, 1),
      onepass_buffer_write(a.get(), 0, nullptr, 1),
      onepass_buffer_read(nullptr, 0, &c, 1),
      onepass_buffer_read(a.get(), 0, nullptr, 1),
      onepass_tensor_bytes(ONEPASS_F32, 1, nullptr, &n),
      onepass_tensor_bytes(ONEPASS_F32, 0, nullptr, nullptr),
      onepass_op_count(nullptr),
      onepass_op_get_info(0, nullptr),
      onepass_recorder_begin(nullptr, &r),
      onepass_recorder_begin(device.get(), nullptr),
      onepass_recorder_scratch(nullptr, ONEPASS_F32, 0, nullptr, &t),
      onepass_recorder_scratch(recorder.get(), ONEPASS_F32, 0, nullptr, nullptr),
      onepass_recorder_scratch(recorder.get(), ONEPASS_F32, 1, nullptr, &t),
      onepass_op(nullptr, "add", &t, 1, nullptr),
      onepass_op(recorder.get(), nullptr, &t, 1, nullptr),
      onepass_op(begin(device).get(), "add", nullptr, 3, nullptr),
      onepass_recorder_compile(nullptr, nullptr, &p),
      onepass_recorder_compile(begin(device).get(), nullptr, nullptr),
      onepass_plan_run(nullptr),
      onepass_plan_run_async(nullptr, &s),
      onepass_plan_get_info(nullptr, nullptr),
      onepass_submission_wait(nullptr),
      onepass_submission_is_done(nullptr, &u),
      onepass_model_load(nullptr, "synthetic:tiny:f32", nullptr, &m),
      onepass_model_load(device.get(), nullptr, nullptr, &m),
      onepass_model_load(device.get(), "synthetic:tiny:f32", nullptr, nullptr),
      onepass_model_get_info(nullptr, nullptr),
      onepass_tokenize(nullptr, "a", 1, 0, &u, 1, &size),
      onepass_detokenize(nullptr, &u, 1, 0, &c, 1, &size),
      onepass_sequence_create(nullptr, nullptr, &q),
      onepass_sequence_append(nullptr, &u, 1),
      onepass_sequence_logits(nullptr, &f, 1),
      onepass_sequence_length(nullptr, &u, &u),
      onepass_sequence_truncate(nullptr, 0),
      onepass_sequence_cancel(nullptr),
      onepass_chat_prompt(nullptr, "[]", nullptr, &c, 1, &size),
      onepass_generate(nullptr, "a", 1, nullptr, nullptr),
      onepass_generate_tokens(nullptr, &u, 1, nullptr, nullptr),
  };
  for (std::size_t i = 0; i < std::size(results); ++i) {
    EXPECT_EQ(results[i], ONEPASS_INVALID_ARGUMENT) << "call " << i;
  }
  onepass_device_close(nullptr);
  onepass_buffer_close(nullptr);
  onepass_recorder_close(nullptr);
  onepass_plan_close(nullptr);
  onepass_submission_close(nullptr);
  onepass_model_close(nullptr);
  onepass_sequence_close(nullptr);
}

// Every operator new of a whole program fails once: out of memory or an unharmed success.
TEST(CApiHeap, EveryAllocationFails) {
  const auto program = [](std::vector<float>& out) {
    onepass_device* device = nullptr;
    auto options = sized<onepass_device_options>();
    options.threads = 1;
    if (const auto r = onepass_device_open("cpu", &options, &device)) return r;
    const DeviceHandle close_device(device);
    onepass_buffer* memory = nullptr;
    if (const auto r = onepass_buffer_create(device, 128, &memory)) return r;
    const BufferHandle a(memory);
    const std::vector<float>& ones = out;
    if (const auto r = onepass_buffer_write(memory, 64, ones.data(), 64)) return r;
    onepass_recorder* recorder = nullptr;
    if (const auto r = onepass_recorder_begin(device, &recorder)) return r;
    const RecorderHandle close_recorder(recorder);
    const std::uint32_t shape[] = {16};
    onepass_tensor sum{};
    if (const auto r = onepass_recorder_scratch(recorder, ONEPASS_F32, 1, shape, &sum)) return r;
    const onepass_tensor x = tensor(a, {16}, ONEPASS_F32, 64), y = tensor(a, {16});
    const onepass_tensor add[] = {x, x, sum}, mul[] = {sum, sum, y};
    if (const auto r = onepass_op(recorder, "add", add, 3, nullptr)) return r;
    if (const auto r = onepass_op(recorder, "mul", mul, 3, nullptr)) return r;
    onepass_plan* plan = nullptr;
    if (const auto r = onepass_recorder_compile(recorder, nullptr, &plan)) return r;
    const PlanHandle close_plan(plan);
    if (const auto r = onepass_plan_run(plan)) return r;
    return onepass_buffer_read(memory, 0, out.data(), 64);
  };
  std::vector<float> out(16, 1.0f);
  ASSERT_OK(program(out));
  const std::vector<float> expected(16, 4.0f);
  ASSERT_EQ(out, expected);
  std::fill(out.begin(), out.end(), 1.0f);
  ASSERT_OK(program(out));
  const std::int64_t live = heap_live();
  std::uint64_t failures = 0;
  for (std::uint64_t n = 1; n < 100000; ++n) {
    std::fill(out.begin(), out.end(), 1.0f);
    fail_heap_allocation(n);
    const onepass_result result = program(out);
    const bool fired = heap_failure_fired();
    fail_heap_allocation(0);
    if (result == ONEPASS_OK) {
      EXPECT_EQ(out, expected) << "allocation " << n;
    } else {
      EXPECT_EQ(result, ONEPASS_OUT_OF_MEMORY) << "allocation " << n << onepass_error_message();
      ++failures;
    }
    EXPECT_EQ(heap_live(), live) << "allocation " << n;
    if (HasFailure() || !fired) break;
  }
  EXPECT_GT(failures, 10u);
}

}  // namespace
}  // namespace onepass::test
