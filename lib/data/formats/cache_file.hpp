#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace trainctl::data {

/// ${XDG_CACHE_HOME:-~/.cache}/trainctl; empty where neither variable is an absolute path.
std::filesystem::path cache_root();

/// A file that saves work and may vanish at any time: a short head that tells whether it is still
/// right, and a body. Both carry a digest; what is damaged, cut off or of another version reads as
/// absent. Lies in
/// ${XDG_CACHE_HOME:-~/.cache}/trainctl/manifests.
class CacheFile {
 public:
  /// `identity` says what is cached, as "image_folder\0/data/train".
  explicit CacheFile(std::string_view identity);
  /// In a folder of its own.
  CacheFile(const std::filesystem::path& folder, std::string_view identity);

  struct Content {
    std::string head;
    std::string body;
  };

  [[nodiscard]] std::optional<std::string> head() const;
  [[nodiscard]] std::optional<Content> read() const;
  /// Atomic. A folder that cannot be written, or a full disk, only means that nothing is saved.
  void write(std::string_view head, std::string_view body) const;
  void remove() const;

 private:
  std::filesystem::path path_;  // empty: there is no home for it
};

/// Appends plain values to a string, in this machine's byte order: for cache files, which stay on
/// their machine.
class ByteWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }

  template <class T>
  void put_all(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }

  void put_text(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text);
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads them back. Once something does not fit, ok() is false and everything reads as empty.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value{};
    const std::string_view taken = take(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }

  template <class T>
  std::vector<T> get_all() {
    const auto count = get<std::uint64_t>();
    if (count > bytes_.size() / sizeof(T)) return fail(), std::vector<T>{};
    const std::string_view taken = take(count * sizeof(T));
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), taken.data(), taken.size());
    return values;
  }

  std::string get_text() {
    const auto count = get<std::uint64_t>();
    return std::string(take(count));
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

 private:
  void fail() {
    ok_ = false;
    bytes_ = {};
  }
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) return fail(), std::string_view{};
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace trainctl::data
