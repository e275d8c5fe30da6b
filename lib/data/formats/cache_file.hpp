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

/// ${XDG_CACHE_HOME:-~/.cache}/trainctl; empty where neither variable is an absolute path.
std::filesystem::path cache_root();

/// A file that saves work and may vanish at any time: a short head that tells whether it is still
/// right, and a body. Both carry a digest; what is damaged, cut off or of another version reads as
/// absent.
class CacheFile {
 public:
  /// In cache_root()/manifests. `identity` says what is cached, as "image_folder\0/data/train".
  explicit CacheFile(std::string_view identity);
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

// Values as bytes in this machine's byte order: plain values as they lie in memory, strings and
// vectors behind their 64-bit length, and a struct part by part, as its static function parts()
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

/// Takes an empty value off the front of `bytes`. False where they are too few; nothing is
/// allocated that they could not fill.
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

/// Reads empty values back. False where the bytes are not exactly those of such values.
template <class... Values>
bool decode(std::string_view bytes, Values&... values) {
  return (get_bytes(values, bytes) && ...) && bytes.empty();
}

}  // namespace trainctl::data
