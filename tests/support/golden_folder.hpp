#pragma once

#include <filesystem>

/// tests/golden of the source tree. Only the source of this function knows the path, so that a
/// compiler cache serves every checkout with the other objects.
std::filesystem::path golden_folder();
