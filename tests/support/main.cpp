#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

#include <cstdio>
#include <cstdlib>

// CTest runs each case in a separate process, so a skip may exit.
void skip(const char* reason) {
  std::printf("skipped: %s\n", reason);
  std::fflush(stdout);
  std::_Exit(4);
}

int main(int argc, char** argv) {
  // libtorch's flight recorder does not lock its map of groups, and tests use one group per thread.
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 0);
  const int failed = Catch::Session().run(argc, argv);
  return failed == 0 ? 0 : 1;
}
