#pragma once

#include "data/core/registry.hpp"
#include "data/fakes.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace trainctl::data::testing {

/// Isolates the caches of a test: XDG_CACHE_HOME is a temporary folder.
class CacheHome {
 public:
  CacheHome() {
    if (const char* set = std::getenv("XDG_CACHE_HOME")) before_ = set;
    ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  ~CacheHome() {
    if (before_.empty())
      ::unsetenv("XDG_CACHE_HOME");
    else
      ::setenv("XDG_CACHE_HOME", before_.c_str(), 1);
  }
  CacheHome(const CacheHome&) = delete;
  CacheHome& operator=(const CacheHome&) = delete;

  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) found.push_back(entry.path());
    }
    return found;
  }

 private:
  TempFolder folder_;
  std::string before_;
};

inline std::string get_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Sets all modification times below `folder` to an hour ago, so that manifests are cached.
inline void settle(const std::filesystem::path& folder) {
  const auto then = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_symlink()) std::filesystem::last_write_time(entry.path(), then);
  }
  std::filesystem::last_write_time(folder, then);
}

template <class Options>
std::shared_ptr<const Dataset> build(const std::string& type, const Options& options) {
  return builtin_catalog().datasets.at(type)(config::make_stage("dataset", type, options));
}

template <class Options>
Facts facts(const std::string& type, const Options& options) {
  return builtin_catalog().facts.at(type)(config::make_stage("dataset", type, options));
}

/// Returns the stored bytes of a sample's image.
inline std::string stored(const Dataset& dataset, std::int64_t index) {
  std::vector<std::byte> scratch;
  const auto bytes = dataset.images()->read(index, scratch).bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns field `which` of one sample as values of T. With `alone` the other fields are not
/// requested.
template <class T>
std::vector<T> values(const Dataset& dataset, std::int64_t index, std::size_t which) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<std::byte>> rows;
  for (const Field& field : dataset.layout()) memory.emplace_back(field.bytes());
  for (auto& bytes : memory) rows.emplace_back(bytes);
  dataset.fill({&index, 1}, rows);
  std::vector<T> out(memory[which].size() / sizeof(T));
  std::memcpy(out.data(), memory[which].data(), memory[which].size());
  return out;
}

/// Returns the labels of all samples of a data set with images.
inline std::vector<std::int64_t> labels_of(const Dataset& dataset) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < dataset.size(); ++i) indices.push_back(i);
  std::vector<std::int64_t> labels(indices.size());
  const std::span<std::byte> rows[] = {{}, std::as_writable_bytes(std::span(labels))};
  dataset.fill(indices, rows);
  return labels;
}

}  // namespace trainctl::data::testing
