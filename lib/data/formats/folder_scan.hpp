#pragma once

#include "data/formats/manifest.hpp"

namespace trainctl::data {

/// Whether a class folder without images is an error.
enum class EmptyClasses { refuse, allow };
/// Whether a scan reads the stamp of each file.
enum class Stamps { take, leave };

/// The files that a scan looks for, with their names in messages.
struct ScannedFiles {
  bool (*matches)(std::string_view name);
  const char* one;
  const char* many;
  const char* suffixes;
};
inline constexpr ScannedFiles kImageFiles{has_image_suffix, "image", "images",
                                          ".jpg .jpeg .png .webp .bmp .tif .tiff"};

struct ScanOptions {
  DataRoot::Links links = DataRoot::Links::refuse;
  EmptyClasses empty = EmptyClasses::refuse;
  Stamps stamps = Stamps::take;  // `leave` lists names only and skips the stat() of each file
  const ScannedFiles& of = kImageFiles;
};

/// The images of a folder, and the folders that a cached manifest depends on.
struct FolderScan {
  ImageFiles files;
  std::vector<PathStamp> folders;
};

/// Lists the images, or other files, in class folders, with torchvision ImageFolder's order of
/// classes and files: a class is a direct subfolder of `root`; classes are sorted by name, files by
/// folder and name. Throws Error(data).
FolderScan scan_class_folders(const std::filesystem::path& root, const ScanOptions& options);

/// Lists all images below `root` in the same order: those directly in `root` first, then folder by
/// folder. They have no labels, and links are followed. Throws Error(data).
ImageFiles scan_pictures(const std::filesystem::path& root);

/// Like scan_class_folders() for a remote folder, from the listing of the object store: the same
/// classes and files in the same order. Throws Error(data), or Error(config) when the store cannot
/// list.
ImageFiles scan_remote_classes(const std::filesystem::path& root);
/// Makes the next scan request the listing again.
void forget_remote_classes(const std::filesystem::path& root);

}  // namespace trainctl::data
