// What the tools say a device was given between the dispatches of a plan.
#include "../../tools/onepass/common/order_text.h"

#include <gtest/gtest.h>

namespace onepass::order_text_test {
namespace {

TEST(OrderText, SaysWhatIsIssued) {
  PlanReport r;
  r.barriers = 68;
  r.edges_issued = 72;
  EXPECT_EQ(tool::issued_text(r), "no barriers");
  r.order = OrderKind::levels;
  EXPECT_EQ(tool::issued_text(r), "68 barriers");
  r.order = OrderKind::edges;
  EXPECT_EQ(tool::issued_text(r), "72 edges");
  r.added = 3;
  EXPECT_EQ(tool::issued_text(r), "72 edges (3 added)");
  r.programmatic = 60;
  EXPECT_EQ(tool::issued_text(r), "72 edges (60 programmatic, 3 added)");
  r.added = 0;
  EXPECT_EQ(tool::issued_text(r), "72 edges (60 programmatic)");
}

}  // namespace
}  // namespace onepass::order_text_test
