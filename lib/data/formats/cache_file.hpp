#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace trainctl::data {

/// Returns ${XDG_CACHE_HOME:-~/.cache}/trainctl, or an empty path when neither variable is an
/// absolute path.
std::filesystem::path cache_root();

/// A cache file that may be deleted at any time: a short head, which shows whether the cache is
/// still valid, and a body. Both carry a digest; a file that is damaged, truncated or of another
/// version reads as absent.
class CacheFile {
 public:
  /// Uses the folder cache_root()/manifests. `identity` names the cached object, for example
  /// "image_folder\0/data/train".
  explicit CacheFile(std::string_view identity);
  CacheFile(const std::filesystem::path& folder, std::string_view identity);

  struct Content {
    std::string head;
    std::string body;
  };

  [[nodiscard]] std::optional<std::string> head() const;
  [[nodiscard]] std::optional<Content> read() const;
  /// Writes atomically. Does nothing when the folder is read-only or the disk is full.
  void write(std::string_view head, std::string_view body) const;
  void remove() const;

 private:
  std::filesystem::path path_;  // empty without a cache folder
};

// Serializes values in native byte order: trivially copyable values as their memory, strings and
// vectors after their 64-bit length, and structs member by member, as the static function parts()
// lists them for both directions.

template <class T>
void put_bytes(const T& value, std::string& bytes) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  } else if constexpr (requires { T::parts(value); }) {
    std::apply([&](const auto&... part) { (put_bytes(part, bytes), ...); }, T::parts(value));
  } else {
    using Item = typename T::value_type;
    put_bytes(std::uint64_t{value.size()}, bytes);
    if constexpr (std::is_trivially_copyable_v<Item>)
      bytes.append(reinterpret_cast<const char*>(value.data()), value.size() * sizeof(Item));
    else
      for (const Item& item : value) put_bytes(item, bytes);
  }
}

/// Reads a value from the front of `bytes` into `value`, which must be empty. Returns false when
/// there are too few bytes; never allocates more than the bytes could fill.
template <class T>
bool get_bytes(T& value, std::string_view& bytes) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    if (bytes.size() < sizeof value) return false;
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
    return true;
  } else if constexpr (requires { T::parts(value); }) {
    return std::apply([&](auto&... part) { return (get_bytes(part, bytes) && ...); },
                      T::parts(value));
  } else {
    using Item = typename T::value_type;
    std::uint64_t count = 0;
    if (!get_bytes(count, bytes)) return false;
    if constexpr (std::is_trivially_copyable_v<Item>) {
      if (count > bytes.size() / sizeof(Item)) return false;
      value.resize(count);
      if (count > 0) std::memcpy(value.data(), bytes.data(), count * sizeof(Item));
      bytes.remove_prefix(count * sizeof(Item));
      return true;
    } else {
      while (count-- > 0) {
        if (!get_bytes(value.emplace_back(), bytes)) return false;
      }
      return true;
    }
  }
}

template <class... Values>
std::string encode(const Values&... values) {
  std::string bytes;
  (put_bytes(values, bytes), ...);
  return bytes;
}

/// Reads into empty values. Returns false when the bytes do not match them exactly.
template <class... Values>
bool decode(std::string_view bytes, Values&... values) {
  return (get_bytes(values, bytes) && ...) && bytes.empty();
}

}  // namespace trainctl::data
