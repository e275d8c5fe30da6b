#pragma once

#include "base/files.hpp"

#include <map>

namespace trainctl::safetensors {

/// One tensor of a file: its dtype in the names of the format ("F32", "I64", "U8", ...), its shape,
/// and its bytes in row-major order.
struct View {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Returns the bytes of one element; 0 for a dtype that the format does not have.
std::size_t element_bytes(std::string_view dtype);

/// Returns the product of `element` bytes and the sizes of a shape; empty if a size is negative or
/// the product overflows.
std::optional<std::uint64_t> byte_count(std::span<const std::int64_t> shape, std::size_t element);

/// Writes a file in the format of https://github.com/huggingface/safetensors: the header length in
/// 8 bytes, the JSON header padded to 8, and the raw data. The write is atomic: readers see the old
/// file or the new one. Throws Error(resource) if the disk refuses.
void write(const std::filesystem::path& path, std::span<const View> tensors,
           const std::map<std::string, std::string>& metadata);

/// Writes the same to an open file.
void write_to(int fd, std::span<const View> tensors,
              const std::map<std::string, std::string>& metadata, const std::string& label);

/// A mapped safetensors file; the views point into the mapping. The header is read and checked by
/// the constructor, the tensor data when it is accessed.
class File {
 public:
  /// Reads the header strictly: no holes, no overlaps, every product checked. Throws
  /// Error(checkpoint) naming the file and the tensor.
  explicit File(const std::filesystem::path& path);

  /// Returns the tensors in the order of their data.
  [[nodiscard]] const std::vector<View>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Returns the mapping that the views point into, so that it can be watched while it is read.
  [[nodiscard]] const FileMapping& mapping() const { return mapping_; }

 private:
  void parse(const std::string& header, std::span<const std::byte> data);

  FileMapping mapping_;
  std::vector<View> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace trainctl::safetensors
