#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

#include <cstdio>
#include <cstdlib>

// CTest runs each case in a process of its own, so a skip may end the process.
void skip(const char* reason) {
  std::printf("skipped: %s\n", reason);
  std::fflush(stdout);
  std::_Exit(4);
}

int main(int argc, char** argv) {
  // libtorch's flight recorder does not guard its map of groups, and tests hold a group a thread.
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 0);
  const int failed = Catch::Session().run(argc, argv);
  return failed == 0 ? 0 : 1;
}
