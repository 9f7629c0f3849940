#include <array>
#include <limits>

#include "capi/handles.h"

namespace onepass::capi {
namespace {

// In the order of onepass_dtype.
constexpr std::array dtypes = {
    DType::f32,    DType::f16,   DType::bf16,    DType::u8,     DType::u16,   DType::u32,
    DType::i32,    DType::q4_0,  DType::q4_1,    DType::q5_0,   DType::q5_1,  DType::q8_0,
    DType::q2_k,   DType::q3_k,  DType::q4_k,    DType::q5_k,   DType::q6_k,  DType::iq4_nl,
    DType::iq4_xs, DType::mxfp4, DType::nvfp4,   DType::tq1_0,  DType::tq2_0, DType::q1_0,
    DType::q2_0,   DType::iq3_s, DType::iq3_xxs, DType::iq2_xs, DType::iq2_s, DType::iq2_xxs,
    DType::iq1_s,  DType::iq1_m,
};
static_assert(dtypes.size() == ONEPASS_IQ1_M + 1 && dtypes[ONEPASS_I32] == DType::i32 &&
              dtypes[ONEPASS_Q4_0] == DType::q4_0 && dtypes[ONEPASS_Q8_0] == DType::q8_0 &&
              dtypes[ONEPASS_Q2_K] == DType::q2_k && dtypes[ONEPASS_IQ4_NL] == DType::iq4_nl);

bool is_none(const onepass_tensor& t) noexcept { return t.buffer == nullptr && t.scratch == 0; }

Result<Tensor> tensor_of(const onepass_recorder& recorder, const onepass_tensor& t) {
  if (is_none(t)) return Tensor{};
  if (t.reserved != 0) return bad_argument("reserved is not 0");
  if (t.buffer != nullptr && t.scratch != 0) {
    return bad_argument("it is in a buffer and in scratch memory");
  }
  ONEPASS_ASSIGN(const DType dtype, dtype_of(t.dtype));
  ONEPASS_ASSIGN(const Shape shape, shape_of(t.rank, t.shape));
  ONEPASS_ASSIGN(const std::uint64_t bytes, bytes_of(dtype, shape));
  View whole;
  if (t.buffer != nullptr) {
    if (&t.buffer->device.state() != &recorder.device.state()) {
      return bad_argument("its buffer is of another device");
    }
    whole = t.buffer->buffer.view();
  } else {
    if (t.scratch > recorder.scratch.size()) {
      return bad_argument("there is no scratch " + std::to_string(t.scratch));
    }
    whole = recorder.scratch[t.scratch - 1].view;
  }
  if (t.offset > whole.bytes || bytes > whole.bytes - t.offset) {
    return bad_argument("it needs " + std::to_string(bytes) + " bytes at byte " +
                        std::to_string(t.offset) + ", its memory has " +
                        std::to_string(whole.bytes));
  }
  return tensor(View{whole.buffer, whole.offset + t.offset, bytes}, dtype, shape);
}

Error ended() {
  return make_error(ErrorCode::invalid_state, "the recorder was compiled already", "", 0);
}

}  // namespace

Result<DType> dtype_of(onepass_dtype type) {
  const auto index = static_cast<std::size_t>(type);
  if (index >= dtypes.size()) return bad_argument("unknown dtype " + std::to_string(index));
  return dtypes[index];
}

Result<Shape> shape_of(uint32_t rank, const uint32_t* shape) {
  Shape s;
  if (rank > s.dims.size()) {
    return bad_argument("rank is " + std::to_string(rank) + ", at most 4");
  }
  if (rank > 0) ONEPASS_TRY(require(shape, "shape"));
  s.rank = rank;
  for (uint32_t i = 0; i < rank; ++i) s.dims[i] = shape[i];
  return s;
}

Result<std::uint64_t> bytes_of(DType type, const Shape& shape) {
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < shape.rank; ++i) {
    if (shape[i] != 0 && elements > std::numeric_limits<std::uint64_t>::max() / shape[i]) {
      return bad_argument("its shape has more than 2^64 elements");
    }
    elements *= shape[i];
  }
  const DTypeInfo& format = info(type);
  const std::optional<std::uint64_t> bytes = storage_bytes(type, elements);
  if (!bytes || shape.last() % format.block_elements != 0) {
    return bad_argument("rows of " + std::to_string(shape.last()) + " elements are no whole " +
                        format.name + " blocks of " + std::to_string(format.block_elements));
  }
  return *bytes;
}

}  // namespace onepass::capi

using namespace onepass;
using namespace onepass::capi;

extern "C" {

onepass_result onepass_tensor_bytes(onepass_dtype dtype, uint32_t rank, const uint32_t* shape,
                                    uint64_t* bytes) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(bytes, "bytes"));
    ONEPASS_ASSIGN(const DType type, dtype_of(dtype));
    ONEPASS_ASSIGN(const Shape s, shape_of(rank, shape));
    ONEPASS_ASSIGN(*bytes, bytes_of(type, s));
    return {};
  });
}

onepass_result onepass_recorder_begin(const onepass_device* device, onepass_recorder** recorder) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(device, "device"));
    ONEPASS_TRY(require(recorder, "recorder"));
    GraphSession session = device->executor.begin_recorded();
    ONEPASS_TRY(session.status());
    *recorder = new onepass_recorder{device->device, device->executor, std::move(session), {}};
    return {};
  });
}

onepass_result onepass_recorder_scratch(onepass_recorder* recorder, onepass_dtype dtype,
                                        uint32_t rank, const uint32_t* shape,
                                        onepass_tensor* tensor) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(recorder, "recorder"));
    ONEPASS_TRY(require(tensor, "tensor"));
    if (!recorder->session) return ended();
    ONEPASS_TRY(recorder->session->status());
    ONEPASS_ASSIGN(const DType type, dtype_of(dtype));
    ONEPASS_ASSIGN(const Shape s, shape_of(rank, shape));
    ONEPASS_TRY(bytes_of(type, s));
    recorder->scratch.reserve(recorder->scratch.size() + 1);
    const Tensor made = recorder->session->scratch(type, s);
    ONEPASS_TRY(recorder->session->status());
    recorder->scratch.push_back(made);
    onepass_tensor value{};
    value.dtype = dtype;
    value.rank = rank;
    for (uint32_t i = 0; i < rank; ++i) value.shape[i] = shape[i];
    value.scratch = static_cast<uint32_t>(recorder->scratch.size());
    *tensor = value;
    return {};
  });
}

onepass_result onepass_op(onepass_recorder* recorder, const char* name,
                          const onepass_tensor* tensors, size_t n_tensors,
                          const onepass_op_options* options) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(recorder, "recorder"));
    if (!recorder->session) return ended();
    GraphSession& session = *recorder->session;
    ONEPASS_TRY(session.status());
    const Status status = guarded([&]() -> Status {
      ONEPASS_TRY(require(name, "name"));
      if (n_tensors > 0) ONEPASS_TRY(require(tensors, "tensors"));
      if (n_tensors > max_views) {
        return bad_argument(std::string(name) + ": " + std::to_string(n_tensors) + " tensors");
      }
      ONEPASS_ASSIGN(const onepass_op_options o, take_options(options, "onepass_op_options"));
      std::vector<Tensor> list;
      list.reserve(n_tensors);
      for (size_t i = 0; i < n_tensors; ++i) {
        Result<Tensor> t = tensor_of(*recorder, tensors[i]);
        if (!t) {
          Error e = std::move(t).error();
          e.message = std::string(name) + ": tensor " + std::to_string(i) + ": " + e.message;
          return e;
        }
        list.push_back(*t);
      }
      return record_op(session, name, list, o);
    });
    if (!status) session.fail(status.error());
    return status;
  });
}

onepass_result onepass_recorder_compile(onepass_recorder* recorder,
                                        const onepass_plan_options* options, onepass_plan** plan) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(recorder, "recorder"));
    if (!recorder->session) return ended();
    GraphSession session = std::move(*recorder->session);
    recorder->session.reset();
    ONEPASS_TRY(require(plan, "plan"));
    ONEPASS_ASSIGN(const onepass_plan_options o, take_options(options, "onepass_plan_options"));
    PlanOptions plan_options;
    plan_options.fuse = o.no_fuse == 0;
    plan_options.close_fusions = o.exact == 0;
    if (o.label != nullptr) plan_options.label = session.intern(o.label);
    ONEPASS_ASSIGN(Plan compiled, session.compile(plan_options));
    *plan = new onepass_plan{recorder->executor, std::move(compiled)};
    return {};
  });
}

void onepass_recorder_close(onepass_recorder* recorder) { delete recorder; }

onepass_result onepass_plan_run(const onepass_plan* plan) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(plan, "plan"));
    return plan->plan.run();
  });
}

onepass_result onepass_plan_run_async(const onepass_plan* plan, onepass_submission** submission) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(plan, "plan"));
    ONEPASS_TRY(require(submission, "submission"));
    auto made = std::make_unique<onepass_submission>();
    ONEPASS_ASSIGN(made->submission, plan->plan.run_async());
    *submission = made.release();
    return {};
  });
}

onepass_result onepass_plan_get_info(const onepass_plan* plan, onepass_plan_info* info) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(plan, "plan"));
    const PlanReport& report = plan->plan.report();
    onepass_plan_info value{};
    value.dispatches = report.dispatches;
    value.barriers = report.barriers;
    value.levels = report.levels;
    value.longest_path = report.longest_path;
    value.fused = report.fused.count;
    value.validated = report.validated ? 1 : 0;
    value.arena_bytes = report.arena_bytes;
    return give(info, value, "onepass_plan_info");
  });
}

void onepass_plan_close(onepass_plan* plan) { delete plan; }

onepass_result onepass_submission_wait(const onepass_submission* submission) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(submission, "submission"));
    return submission->submission.wait();
  });
}

onepass_result onepass_submission_is_done(const onepass_submission* submission, uint32_t* done) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(submission, "submission"));
    ONEPASS_TRY(require(done, "done"));
    *done = submission->submission.is_done() ? 1 : 0;
    return {};
  });
}

void onepass_submission_close(onepass_submission* submission) { delete submission; }

}  // extern "C"
