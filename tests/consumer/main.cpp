// A program outside the source tree: it sees only what was installed.
#include <cstdio>
#include <cstring>
#include <onepass/onepass.hpp>

int main(int argc, char** argv) {
  const onepass::Result<const char*> version = onepass::version();
  if (argc != 2 || !version || std::strcmp(*version, argv[1]) != 0) {
    std::fprintf(stderr, "library says %s, expected %s\n", version.value_or("?"),
                 argc == 2 ? argv[1] : "one argument");
    return 1;
  }
  std::printf("onepass %s\n", *version);
}
