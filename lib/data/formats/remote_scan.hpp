#pragma once

#include "data/formats/image_files.hpp"

#include <filesystem>

namespace trainctl::data {

/// scan_class_folders() of a remote folder, by its list: the same classes and files in the same
/// order. Throws Error(data), and Error(config) where the storage has no list.
ImageFiles scan_remote_classes(const std::filesystem::path& root);
/// The next scan asks for the list again.
void forget_remote_classes(const std::filesystem::path& root);

}  // namespace trainctl::data
