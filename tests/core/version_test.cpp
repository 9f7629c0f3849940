#include "onepass/version.h"

#include <gtest/gtest.h>

TEST(Version, matches_the_build_system) {
  EXPECT_STREQ(onepass::version(), ONEPASS_PROJECT_VERSION);
}
