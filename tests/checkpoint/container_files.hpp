#pragma once

#include "base/error.hpp"
#include "base/hash.hpp"
#include "checkpoint/container.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Builds checkpoint files with arbitrary headers, intact or damaged, but always with valid
/// checksums.
namespace container_files {

using trainctl::Json;

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string random_text(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(draw() & 0xff);
  return text;
}

/// Overwrites bytes with a little-endian number.
inline void put_number(std::string& file, std::size_t at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    file[at + i] = static_cast<char>((value >> (8 * i)) & 0xff);
}

/// Writes the 32-byte prefix for a header of that length.
inline void seal(std::string& file, std::uint64_t header_bytes, std::uint32_t version = 1) {
  file.replace(0, 8, "TCTLCKPT");
  put_number(file, 8, version, 4);
  put_number(file, 12, 0, 4);
  put_number(file, 16, file.size(), 8);
  put_number(file, 24, header_bytes, 8);
  const std::string_view covered = std::string_view(file).substr(0, 32 + header_bytes);
  put_number(file, 12, trainctl::crc32c(bytes_of(covered)), 4);
}

/// Returns a file that ends after its header.
inline std::string bare_file(const std::string& header) {
  std::string file = std::string(32, '\0') + header;
  seal(file, header.size());
  return file;
}

/// Returns a file with `data` at the first multiple of 64 after the header.
inline std::string file_of(const std::string& header, const std::string& data) {
  std::string file = std::string(32, '\0') + header;
  file.resize((file.size() + 63) / 64 * 64);
  file += data;
  seal(file, header.size());
  return file;
}

inline std::string hex(std::string_view data) {
  return fmt::format("{:08x}", trainctl::crc32c(bytes_of(data)));
}

/// Returns the header entry of `data` as U8.
inline Json listed(const std::string& name, const std::string& data, std::uint64_t offset) {
  Json map = Json::object();
  map["name"] = name;
  map["dtype"] = "U8";
  map["shape"] = Json::array({data.size()});
  map["offset"] = offset;
  map["length"] = data.size();
  map["crc32c"] = hex(data);
  return map;
}

inline Json header_of(const std::vector<Json>& entries) {
  Json header = Json::object();
  header["meta"] = Json::object();
  header["entries"] = entries;
  return header;
}

/// Returns the error of parsing the file, or "accepted".
inline std::string parse_error(std::string_view file) {
  try {
    (void)trainctl::container::parse(bytes_of(file), "x.part");
  } catch (const trainctl::Error& error) {
    if (error.kind() != trainctl::ErrorKind::checkpoint) return "no Error(checkpoint)";
    return error.what();
  }
  return "accepted";
}

/// Returns whether the file is rejected as damaged.
inline bool is_rejected(std::string_view file) { return parse_error(file).starts_with("x.part: "); }

}  // namespace container_files
