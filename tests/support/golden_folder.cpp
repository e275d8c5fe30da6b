#include "support/golden_folder.hpp"

std::filesystem::path golden_folder() { return TRAINCTL_GOLDEN_DIR; }
