// The ops that callers in C can name, one row each.
#include "onepass/ops.h"

#include <array>
#include <span>
#include <string_view>

#include "capi/handles.h"

namespace onepass::capi {
namespace {

struct Args {
  GraphSession& s;
  std::span<const Tensor> t;
  const onepass_op_options& o;

  const Tensor& operator[](std::size_t i) const noexcept { return t[i]; }
};

// Errors name the op and its tensors; there is no line of a program to name.
constexpr ops::Here nowhere{"", 0};

template <void (*op)(GraphSession&, const ops::Binary&, ops::Here)>
void binary(const Args& a) {
  op(a.s, {.a = a[0], .b = a[1], .out = a[2]}, nowhere);
}
template <void (*op)(GraphSession&, const ops::Unary&, ops::Here)>
void unary(const Args& a) {
  op(a.s, {.x = a[0], .out = a[1]}, nowhere);
}

float or_default(float given, float otherwise) noexcept {
  return given != 0.0f ? given : otherwise;
}

// Views without a type in the C++ op.
Status check_u32(const char* op, const char* what, const Tensor& t) {
  if (!t || t.dtype == DType::u32) return {};
  return bad_argument(std::string(op) + ": " + what + " is " + name(t.dtype) + ", expected u32");
}

struct Row {
  const char* name;
  const char* tensors;  // as in onepass_op_info
  const char* options;
  void (*record)(const Args& a);
  int u32 = -1;  // index of the tensor that must be u32
};

constexpr Row rows[] = {
    {"add", "a b out", "", binary<ops::add>},
    {"mul", "a b out", "", binary<ops::mul>},
    {"silu_mul", "a b out", "", binary<ops::silu_mul>},
    {"gelu_mul", "a b out", "", binary<ops::gelu_mul>},
    {"gelu_erf_mul", "a b out", "", binary<ops::gelu_erf_mul>},
    {"sigmoid_mul", "a b out", "", binary<ops::sigmoid_mul>},
    {"silu", "x out", "", unary<ops::silu>},
    {"gelu", "x out", "", unary<ops::gelu>},
    {"gelu_erf", "x out", "", unary<ops::gelu_erf>},
    {"relu2", "x out", "", unary<ops::relu2>},
    {"sigmoid", "x out", "", unary<ops::sigmoid>},
    {"cast", "x out", "", unary<ops::cast>},
    {"copy", "x out", "", unary<ops::copy>},
    {"dequantize", "x out", "", unary<ops::dequantize>},
    {"argmax", "x out", "", unary<ops::argmax>},
    {"argsort", "x out", "", unary<ops::argsort>},
    {"quantize", "x out", "",
     [](const Args& a) { ops::quantize(a.s, {.x = a[0], .out = a[1]}, nowhere); }},
    {"scale", "x out", "factor",
     [](const Args& a) {
       ops::scale(a.s, {.x = a[0], .out = a[1], .factor = a.o.factor}, nowhere);
     }},
    {"softcap", "x out", "cap",
     [](const Args& a) { ops::softcap(a.s, {.x = a[0], .out = a[1], .cap = a.o.cap}, nowhere); }},
    {"softmax", "x mask? out", "scale",
     [](const Args& a) {
       ops::softmax(a.s,
                    {.x = a[0], .out = a[2], .mask = a[1], .scale = or_default(a.o.scale, 1.0f)},
                    nowhere);
     }},
    {"rms_norm", "x weight? out", "eps",
     [](const Args& a) {
       ops::rms_norm(a.s,
                     {.x = a[0], .weight = a[1], .out = a[2], .eps = or_default(a.o.eps, 1e-5f)},
                     nowhere);
     }},
    {"l2_norm", "x out", "eps",
     [](const Args& a) {
       ops::l2_norm(a.s, {.x = a[0], .out = a[1], .eps = or_default(a.o.eps, 1e-6f)}, nowhere);
     }},
    {"layer_norm", "x weight? bias? out", "eps",
     [](const Args& a) {
       ops::layer_norm(a.s,
                       {.x = a[0],
                        .weight = a[1],
                        .bias = a[2],
                        .out = a[3],
                        .eps = or_default(a.o.eps, 1e-5f)},
                       nowhere);
     }},
    {"add_rms_norm", "x residual weight? sum out", "eps",
     [](const Args& a) {
       ops::add_rms_norm(a.s,
                         {.x = a[0],
                          .residual = a[1],
                          .weight = a[2],
                          .sum = a[3],
                          .out = a[4],
                          .eps = or_default(a.o.eps, 1e-5f)},
                         nowhere);
     }},
    {"norm_add", "x weight? residual out", "eps",
     [](const Args& a) {
       ops::norm_add(a.s,
                     {.x = a[0],
                      .weight = a[1],
                      .residual = a[2],
                      .out = a[3],
                      .eps = or_default(a.o.eps, 1e-5f)},
                     nowhere);
     }},
    {"matmul", "x weight out", "",
     [](const Args& a) { ops::matmul(a.s, {.x = a[0], .weight = a[1], .out = a[2]}, nowhere); }},
    {"matmul_id", "x weight ids out", "",
     [](const Args& a) {
       ops::matmul_id(a.s, {.x = a[0], .weight = a[1], .ids = a[2], .out = a[3]}, nowhere);
     }},
    {"gather", "x indices out", "",
     [](const Args& a) { ops::gather(a.s, {.x = a[0], .indices = a[1], .out = a[2]}, nowhere); }},
    {"transpose", "x out", "keep_last",
     [](const Args& a) {
       ops::transpose(a.s, {.x = a[0], .out = a[1], .keep_last = a.o.keep_last != 0}, nowhere);
     }},
    {"slice", "x out", "start",
     [](const Args& a) { ops::slice(a.s, {.x = a[0], .out = a[1], .start = a.o.start}, nowhere); }},
    {"put", "x into", "start",
     [](const Args& a) { ops::put(a.s, {.x = a[0], .into = a[1], .start = a.o.start}, nowhere); }},
    {"concat", "a b out", "",
     [](const Args& a) { ops::concat(a.s, {.a = a[0], .b = a[1], .out = a[2]}, nowhere); }},
    {"top_k", "x values ids", "",
     [](const Args& a) { ops::top_k(a.s, {.x = a[0], .values = a[1], .ids = a[2]}, nowhere); }},
    {"embed", "table tokens out", "scale",
     [](const Args& a) {
       ops::embed(a.s,
                  {.table = a[0],
                   .out = a[2],
                   .tokens = a[1].view,
                   .tokens_are_u32 = true,
                   .scale = or_default(a.o.scale, 1.0f)},
                  nowhere);
     },
     1},
    {"rope", "x positions freq_factors? out", "theta rope_mode rope_dim",
     [](const Args& a) {
       ops::rope(a.s,
                 {.x = a[0],
                  .out = a[3],
                  .positions = a[1].view,
                  .positions_are_u32 = true,
                  .theta = or_default(a.o.theta, 10000.0f),
                  .mode = a.o.rope_mode == ONEPASS_ROPE_NEOX ? ops::RopeMode::neox
                                                             : ops::RopeMode::interleaved,
                  .rope_dim = a.o.rope_dim,
                  .freq_factors = a[2]},
                 nowhere);
     },
     1},
    {"attention", "q k v sinks? out", "scale cap kv_len window full",
     [](const Args& a) {
       ops::attention(a.s,
                      {.q = a[0],
                       .k = a[1],
                       .v = a[2],
                       .out = a[4],
                       .scale = a.o.scale,
                       .kv_len = a.o.kv_len,
                       .causal = a.o.full == 0,
                       .window = a.o.window,
                       .softcap = a.o.cap,
                       .sinks = a[3]},
                      nowhere);
     }},
};

struct Field {
  std::string_view name;
  std::size_t offset;
};
#define ONEPASS_FIELD(name) \
  Field { #name, offsetof(onepass_op_options, name) }
constexpr Field fields[] = {
    ONEPASS_FIELD(eps),      ONEPASS_FIELD(factor), ONEPASS_FIELD(cap),
    ONEPASS_FIELD(scale),    ONEPASS_FIELD(theta),  ONEPASS_FIELD(rope_mode),
    ONEPASS_FIELD(rope_dim), ONEPASS_FIELD(start),  ONEPASS_FIELD(keep_last),
    ONEPASS_FIELD(kv_len),   ONEPASS_FIELD(window), ONEPASS_FIELD(full),
};
#undef ONEPASS_FIELD
// Each is four bytes, and there are no others.
static_assert(sizeof(onepass_op_options) == sizeof(std::size_t) + 4 * std::size(fields));

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> list;
  while (!text.empty()) {
    const std::size_t n = std::min(text.find(' '), text.size());
    list.push_back(text.substr(0, n));
    text.remove_prefix(std::min(n + 1, text.size()));
  }
  return list;
}

const Row* find(std::string_view name) noexcept {
  for (const Row& row : rows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

Status check_options(const Row& row, const onepass_op_options& options) {
  const std::vector<std::string_view> taken = words(row.options);
  for (const Field& field : fields) {
    std::uint32_t bits;
    std::memcpy(&bits, reinterpret_cast<const std::byte*>(&options) + field.offset, sizeof(bits));
    if (bits == 0 || std::find(taken.begin(), taken.end(), field.name) != taken.end()) continue;
    return bad_argument(std::string(row.name) + ": takes no option " + std::string(field.name));
  }
  if (options.rope_mode > ONEPASS_ROPE_NEOX) {
    return bad_argument("rope: unknown rope_mode " + std::to_string(options.rope_mode));
  }
  return {};
}

}  // namespace

Status record_op(GraphSession& session, const char* name, const std::vector<Tensor>& tensors,
                 const onepass_op_options& options) {
  const Row* row = find(name);
  if (row == nullptr) {
    return make_error(ErrorCode::not_found, "there is no op '" + std::string(name) + "'", "", 0);
  }
  const std::vector<std::string_view> names = words(row->tensors);
  if (tensors.size() != names.size()) {
    return bad_argument(std::string(name) + ": got " + std::to_string(tensors.size()) +
                        " tensors, expected " + std::to_string(names.size()) + ": " + row->tensors);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!tensors[i] && !names[i].ends_with('?')) {
      return bad_argument(std::string(name) + ": " + std::string(names[i]) + " is missing");
    }
  }
  if (row->u32 >= 0) {
    const auto i = static_cast<std::size_t>(row->u32);
    ONEPASS_TRY(check_u32(name, std::string(names[i]).c_str(), tensors[i]));
  }
  ONEPASS_TRY(check_options(*row, options));
  row->record({session, tensors, options});
  return session.status();
}

}  // namespace onepass::capi

using namespace onepass;
using namespace onepass::capi;

extern "C" {

onepass_result onepass_op_count(size_t* count) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(count, "count"));
    *count = std::size(rows);
    return {};
  });
}

onepass_result onepass_op_get_info(size_t index, onepass_op_info* info) {
  return call([&]() -> Status {
    if (index >= std::size(rows)) {
      return make_error(ErrorCode::not_found,
                        "op " + std::to_string(index) + " of " + std::to_string(std::size(rows)),
                        "", 0);
    }
    onepass_op_info value{};
    value.name = rows[index].name;
    value.tensors = rows[index].tensors;
    value.options = rows[index].options;
    return give(info, value, "onepass_op_info");
  });
}

}  // extern "C"
