#include "support/golden_folder.hpp"

#include <cstdlib>

std::filesystem::path golden_folder() {
  const char* const folder = std::getenv("TRAINCTL_GOLDEN");
  return folder != nullptr ? folder : TRAINCTL_GOLDEN_DIR;
}
