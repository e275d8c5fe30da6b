#pragma once

#include <filesystem>
#include <fstream>
#include <string>

/// Writes a file and creates its parent folders.
inline void put_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}
