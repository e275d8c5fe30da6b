#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace trainctl::data::testing {

using Bytes = std::vector<std::uint8_t>;

inline void append_word(Bytes& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

/// Returns an IDX file of `count` images of 28x28; pixel k of image i is (i + k) mod 256.
inline Bytes idx_images(std::uint32_t count) {
  Bytes bytes;
  for (const std::uint32_t word : {0x803U, count, 28U, 28U}) append_word(bytes, word);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t k = 0; k < 784; ++k) bytes.push_back(static_cast<std::uint8_t>(i + k));
  }
  return bytes;
}

/// Label i is i mod 10.
inline Bytes idx_labels(std::uint32_t count) {
  Bytes bytes;
  append_word(bytes, 0x801);
  append_word(bytes, count);
  for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 10));
  return bytes;
}

inline void write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

inline Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

constexpr const char* kImages = "train-images-idx3-ubyte";
constexpr const char* kLabels = "train-labels-idx1-ubyte";

/// Writes an uncompressed training split with `count` samples.
inline void write_split(const std::filesystem::path& folder, std::uint32_t count) {
  write_file(folder / kImages, idx_images(count));
  write_file(folder / kLabels, idx_labels(count));
}

}  // namespace trainctl::data::testing
