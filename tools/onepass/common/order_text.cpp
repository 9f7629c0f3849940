#include "order_text.h"

namespace onepass::tool {

const char* order_name(OrderKind order) noexcept {
  switch (order) {
    case OrderKind::levels:
      return "levels";
    case OrderKind::edges:
      return "edges";
    default:
      return "in order";
  }
}

std::string issued_text(const PlanReport& r) {
  if (r.order == OrderKind::in_order) return "no barriers";
  if (r.order == OrderKind::levels) return std::to_string(r.barriers) + " barriers";
  std::string text = std::to_string(r.edges_issued) + " edges";
  if (r.programmatic + r.added == 0) return text;
  text += " (";
  if (r.programmatic > 0) text += std::to_string(r.programmatic) + " programmatic";
  if (r.programmatic > 0 && r.added > 0) text += ", ";
  if (r.added > 0) text += std::to_string(r.added) + " added";
  return text + ")";
}

}  // namespace onepass::tool
