#pragma once

#include "base/files.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::safetensors {

/// One tensor of a file: dtype in the format's words ("F32", "I64", "U8", ...), shape, and its
/// bytes, row-major.
struct View {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Bytes of one element; 0 for a word the format does not know.
std::size_t element_bytes(std::string_view dtype);

/// The product of `element` bytes and the sizes of a shape; nothing where one is negative or the
/// product overflows.
std::optional<std::uint64_t> byte_count(std::span<const std::int64_t> shape, std::size_t element);

/// Writes the format of https://github.com/huggingface/safetensors: 8 bytes header length, JSON
/// padded to 8, raw data. Atomic: readers see the old file or the new one. Throws Error(resource)
/// where the disk refuses.
void write(const std::filesystem::path& path, std::span<const View> tensors,
           const std::map<std::string, std::string>& metadata);

/// The same into a file that is open.
void write_to(int fd, std::span<const View> tensors,
              const std::map<std::string, std::string>& metadata, const std::string& label);

/// A mapped file; the views point into it. The header is read and checked at once, the tensors when
/// somebody touches them.
class File {
 public:
  /// Strict: no holes, no overlaps, every product checked. Throws Error(checkpoint) naming the file
  /// and the tensor.
  explicit File(const std::filesystem::path& path);

  /// In the order of the data.
  [[nodiscard]] const std::vector<View>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// What the views point into, to be watched while they are read.
  [[nodiscard]] const FileMapping& mapping() const { return mapping_; }

 private:
  void parse(const std::string& header, std::span<const std::byte> data);

  FileMapping mapping_;
  std::vector<View> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace trainctl::safetensors
