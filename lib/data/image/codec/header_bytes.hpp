#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace trainctl::data {

enum class ByteOrder { little, big };

/// Numbers within a file; one beyond its end is Error(data).
class HeaderBytes {
 public:
  HeaderBytes(std::span<const std::byte> file, ByteOrder order) : file_(file), order_(order) {}

  [[nodiscard]] std::uint32_t number(std::size_t at, std::size_t bytes) const {
    ENSURE(data, at <= file_.size() && bytes <= file_.size() - at,
           "damaged image: its header points to byte {}, and the file has {}", at + bytes - 1,
           file_.size());
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      const std::size_t place = order_ == ByteOrder::little ? bytes - 1 - i : i;
      value = value << 8 | std::to_integer<std::uint32_t>(file_[at + place]);
    }
    return value;
  }
  [[nodiscard]] bool holds(std::size_t at, std::string_view text) const {
    return file_.size() >= at + text.size() &&
           std::memcmp(file_.data() + at, text.data(), text.size()) == 0;
  }
  [[nodiscard]] std::size_t size() const { return file_.size(); }
  [[nodiscard]] ByteOrder order() const { return order_; }

 private:
  std::span<const std::byte> file_;
  ByteOrder order_;
};

}  // namespace trainctl::data
