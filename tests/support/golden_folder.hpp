#pragma once

#include <filesystem>

/// Returns the folder in TRAINCTL_GOLDEN, or tests/golden of the source tree. Only this function's
/// source contains the path, so that a compiler cache serves all other objects to every checkout.
std::filesystem::path golden_folder();
