#pragma once

#include <filesystem>
#include <fstream>
#include <string>

/// Writes a file, with the folders that lead to it.
inline void put_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}
