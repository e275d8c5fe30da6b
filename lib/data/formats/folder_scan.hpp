#pragma once

#include "data/formats/image_files.hpp"
#include "data/formats/manifest.hpp"

#include <filesystem>
#include <vector>

namespace trainctl::data {

enum class EmptyClasses { refuse, allow };
enum class Stamps { take, leave };

struct ScanOptions {
  DataRoot::Links links = DataRoot::Links::refuse;
  EmptyClasses empty = EmptyClasses::refuse;
  Stamps stamps = Stamps::take;  // leave: names only, which costs no look at each file
};

struct FolderScan {
  ImageFiles files;
  std::vector<Dependency> folders;
};

/// Images in class folders, classes and files in the order of torchvision's ImageFolder: a class is
/// a folder right in `root`, classes are sorted by name, its files by folder and name. Throws
/// Error(data).
FolderScan scan_class_folders(const std::filesystem::path& root, const ScanOptions& options);

/// All images beneath `root`, in the same order: those right in it first, then folder by folder.
/// They have no labels, and their links are followed. Throws Error(data).
ImageFiles scan_pictures(const std::filesystem::path& root);

/// scan_class_folders() of a remote folder, by its list: the same classes and files in the same
/// order. Throws Error(data), and Error(config) where the storage has no list.
ImageFiles scan_remote_classes(const std::filesystem::path& root);
/// The next scan asks for the list again.
void forget_remote_classes(const std::filesystem::path& root);

}  // namespace trainctl::data
