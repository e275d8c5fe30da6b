#include "weights/torch_writer.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <zlib.h>

#include <array>

// The archive follows PKWARE's APPNOTE.TXT, https://www.pkware.com/appnote; the opcodes of the
// pickle are documented in CPython's pickletools.py.

namespace trainctl::weights {
namespace {

constexpr std::uint64_t kTensorAlignment = 64;
constexpr std::uint32_t kMax32 = 0xffffffff;
constexpr std::uint16_t kMax16 = 0xffff;

std::string u16(std::uint64_t value) { return little_endian(value, 2); }
std::string u32(std::uint64_t value) { return little_endian(value, 4); }
std::string u64(std::uint64_t value) { return little_endian(value, 8); }

/// A written file, for the central directory.
struct Placed {
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  // of its local header
  std::uint32_t crc = 0;
};

std::string sizes_of(const Placed& file, bool is_zip64) {
  const std::uint64_t size = is_zip64 ? kMax32 : file.size;
  return u32(file.crc) + u32(size) + u32(size);
}

/// Returns the local header, padded so that the content starts at a multiple of 64.
std::string local_header(const Placed& file, bool is_zip64) {
  constexpr std::uint64_t kFixed = 30;
  std::string extra = is_zip64 ? u16(1) + u16(16) + u64(file.size) + u64(file.size) : "";
  const std::uint64_t end = file.offset + kFixed + file.name.size() + extra.size() + 4;
  const std::uint64_t padding = (kTensorAlignment - end % kTensorAlignment) % kTensorAlignment;
  extra += "FB" + u16(padding) + std::string(padding, 'Z');  // padded as in torch.save
  return u32(0x04034b50) + u16(is_zip64 ? 45 : 20) + u16(0) + u16(0) + u32(0) +
         sizes_of(file, is_zip64) + u16(file.name.size()) + u16(extra.size()) + file.name + extra;
}

std::string directory_header(const Placed& file, bool is_zip64) {
  const std::string extra =
      is_zip64 ? u16(1) + u16(24) + u64(file.size) + u64(file.size) + u64(file.offset) : "";
  return u32(0x02014b50) + u16(is_zip64 ? 45 : 20) + u16(is_zip64 ? 45 : 20) + u16(0) + u16(0) +
         u32(0) + sizes_of(file, is_zip64) + u16(file.name.size()) + u16(extra.size()) +
         std::string(10, '\0') + u32(is_zip64 ? kMax32 : file.offset) + file.name + extra;
}

std::string end_of_directory(std::uint64_t files, std::uint64_t size, std::uint64_t offset,
                             bool is_zip64) {
  std::string end;
  if (is_zip64) {
    end += u32(0x06064b50) + u64(44) + u16(45) + u16(45) + u32(0) + u32(0) + u64(files) +
           u64(files) + u64(size) + u64(offset);
    end += u32(0x07064b50) + u32(0) + u64(offset + size) + u32(1);
  }
  const std::uint64_t count = is_zip64 ? kMax16 : files;
  return end + u32(0x06054b50) + u16(0) + u16(0) + u16(count) + u16(count) +
         u32(is_zip64 ? kMax32 : size) + u32(is_zip64 ? kMax32 : offset) + u16(0);
}

struct Storage {
  std::string_view dtype;
  const char* type;
};

constexpr std::array<Storage, 10> kStorages{{{"F32", "FloatStorage"},
                                             {"F64", "DoubleStorage"},
                                             {"F16", "HalfStorage"},
                                             {"BF16", "BFloat16Storage"},
                                             {"I64", "LongStorage"},
                                             {"I32", "IntStorage"},
                                             {"I16", "ShortStorage"},
                                             {"I8", "CharStorage"},
                                             {"U8", "ByteStorage"},
                                             {"BOOL", "BoolStorage"}}};

std::string pickled(std::string_view text) { return "X" + u32(text.size()) + std::string(text); }

std::string pickled(std::int64_t value) {
  if (value >= 0 && value < 256) return "K" + little_endian(static_cast<std::uint64_t>(value), 1);
  if (value >= 0 && value <= INT32_MAX) return "J" + u32(static_cast<std::uint64_t>(value));
  return "\x8a\x08" + u64(static_cast<std::uint64_t>(value));
}

std::string pickled(const std::vector<std::int64_t>& values) {
  std::string items = "(";
  for (const std::int64_t value : values) items += pickled(value);
  return items + "t";
}

std::string global(std::string_view module, std::string_view name) {
  return fmt::format("c{}\n{}\n", module, name);
}

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d > 1; --d)
    strides[d - 2] = strides[d - 1] * std::max<std::int64_t>(shape[d - 1], 1);
  return strides;
}

/// Returns the pickled call of torch._utils._rebuild_tensor_v2.
std::string pickled(const safetensors::View& tensor, std::size_t number) {
  const auto* storage = std::ranges::find(kStorages, tensor.dtype, &Storage::dtype);
  ENSURE(checkpoint, storage != kStorages.end(),
         "cannot write tensor '{}' as .pth: PyTorch storages do not support the type {}",
         printable(tensor.name), printable(tensor.dtype));
  const auto elements =
      static_cast<std::int64_t>(tensor.bytes.size() / safetensors::element_bytes(tensor.dtype));
  return global("torch._utils", "_rebuild_tensor_v2") + "((" + pickled("storage") +
         global("torch", storage->type) + pickled(std::to_string(number)) + pickled("cpu") +
         pickled(elements) + "tQ" + pickled(std::int64_t{0}) + pickled(tensor.shape) +
         pickled(contiguous_strides(tensor.shape)) + "\x89" + global("collections", "OrderedDict") +
         ")RtR";
}

std::string pickled_dict(std::span<const safetensors::View> tensors) {
  std::string text("\x80\x02}(", 4);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    text += pickled(tensors[i].name) + pickled(tensors[i], i);
  return text + "u.";
}

}  // namespace

void write_zip(int fd, std::span<const ZipContent> files, const std::string& label,
               std::uint64_t zip64_from) {
  std::vector<Placed> placed;
  std::vector<std::string> headers(files.size());
  std::vector<std::string_view> pieces;
  std::uint64_t end = 0;
  std::string directory;
  bool any_zip64 = files.size() >= std::min<std::uint64_t>(zip64_from, kMax16);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string_view bytes = files[i].bytes;
    const auto* first = reinterpret_cast<const Bytef*>(bytes.data());
    const Placed file{files[i].name, bytes.size(), end,
                      static_cast<std::uint32_t>(::crc32_z(0, first, bytes.size()))};
    const bool is_zip64 = file.size >= zip64_from || file.offset >= zip64_from;
    any_zip64 = any_zip64 || is_zip64;
    headers[i] = local_header(file, is_zip64);
    pieces.emplace_back(headers[i]);
    pieces.push_back(bytes);
    end += headers[i].size() + bytes.size();
    directory += directory_header(file, is_zip64);
  }
  any_zip64 = any_zip64 || end >= zip64_from;
  const std::string last = end_of_directory(files.size(), directory.size(), end, any_zip64);
  pieces.emplace_back(directory);
  pieces.emplace_back(last);
  write_gathered(fd, pieces, label);
}

void write_torch_file(const std::filesystem::path& path,
                      std::span<const safetensors::View> tensors) {
  const std::string pickle = pickled_dict(tensors);
  std::vector<ZipContent> files{{"weights/data.pkl", pickle}, {"weights/byteorder", "little"}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    files.push_back({fmt::format("weights/data/{}", i), as_text(tensors[i].bytes)});
  }
  files.push_back({"weights/version", "3\n"});
  write_atomically(path, [&](int fd) { write_zip(fd, files, path.string()); });
}

}  // namespace trainctl::weights
