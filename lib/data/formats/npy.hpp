#pragma once

#include "data/core/batch.hpp"
#include "data/formats/mapped_file.hpp"

#include <cmath>

namespace trainctl::data {

/// The header of a .npy file: format versions 1 to 3, C order, native byte order.
struct NpyHeader {
  char kind = 'f';  // as in numpy: b bool, i and u integers, f floats
  std::size_t item_bytes = 0;
  std::vector<std::int64_t> shape;
  std::size_t data_at = 0;

  [[nodiscard]] std::string type() const { return kind + std::to_string(item_bytes); }
};

/// Parses the header. Throws Error(data), with the byte offset if known; `name` is the file name in
/// errors. The data must end exactly at `file_bytes`.
NpyHeader parse_npy_header(std::span<const std::byte> front, std::uint64_t file_bytes,
                           const std::string& name);

/// A whole array, mapped into memory.
class NpyArray {
 public:
  explicit NpyArray(const std::filesystem::path& path);

  [[nodiscard]] const NpyHeader& header() const { return header_; }
  [[nodiscard]] const std::string& name() const { return file_->name(); }
  [[nodiscard]] std::span<const std::byte> data() const {
    return file_->bytes().subspan(header_.data_at);
  }
  [[nodiscard]] const std::shared_ptr<const MappedFile>& file() const { return file_; }
  /// Converts all items. Throws Error(data) for a type that cannot be converted, or for floats that
  /// are not finite.
  [[nodiscard]] std::vector<std::byte> as_f32() const;
  [[nodiscard]] std::vector<std::byte> as_i64() const;

 private:
  std::shared_ptr<const MappedFile> file_;
  NpyHeader header_;
};

/// Converts an IEEE half-precision number.
inline float half_to_float(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  float value = 0;
  if (exponent == 31)
    value = mantissa == 0 ? INFINITY : NAN;
  else
    value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                          : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return (half & 0x8000) != 0 ? -value : value;
}

}  // namespace trainctl::data
