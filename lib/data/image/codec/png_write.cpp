#include "data/image/codec/png_write.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"

#include <zlib.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace trainctl::data {
namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

std::string chunk(std::string_view type, std::string_view content) {
  const std::string body = std::string(type) + std::string(content);
  const auto checksum =
      ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(content.size())) + body +
         big_endian(static_cast<std::uint32_t>(checksum));
}

std::string header(const ImageShape& shape) {
  constexpr char kGrey = 0;
  constexpr char kRgb = 2;
  std::string content = big_endian(static_cast<std::uint32_t>(shape.width)) +
                        big_endian(static_cast<std::uint32_t>(shape.height));
  content += '\x08';  // bits a channel
  content += shape.channels == 1 ? kGrey : kRgb;
  content += std::string(3, '\0');  // deflate, the standard filters, not interlaced
  return content;
}

/// Compresses rows and writes what comes out in pieces: a chunk has at most 2^31 - 1 bytes.
class RowWriter {
 public:
  explicit RowWriter(std::function<void(std::string_view)> write) : write_(std::move(write)) {
    ENSURE(resource, ::deflateInit(&stream_, 6) == Z_OK, "cannot compress an image: no memory");
    begin_piece();
  }
  ~RowWriter() { ::deflateEnd(&stream_); }
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;

  void add(std::span<const std::uint8_t> bytes) {
    stream_.next_in = const_cast<Bytef*>(bytes.data());
    stream_.avail_in = static_cast<uInt>(bytes.size());
    while (stream_.avail_in > 0) step(Z_NO_FLUSH);
  }
  void finish() {
    while (step(Z_FINISH) != Z_STREAM_END) continue;
    write_piece();
  }

 private:
  int step(int flush) {
    const int status = ::deflate(&stream_, flush);
    ENSURE(resource, status == Z_OK || status == Z_STREAM_END,
           "cannot compress an image: zlib returned {}", status);
    if (stream_.avail_out == 0) write_piece();
    return status;
  }
  void write_piece() {
    const std::size_t size = piece_.size() - stream_.avail_out;
    if (size > 0) write_(std::string_view(piece_).substr(0, size));
    begin_piece();
  }
  void begin_piece() {
    stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
    stream_.avail_out = static_cast<uInt>(piece_.size());
  }

  std::function<void(std::string_view)> write_;
  z_stream stream_{};
  std::string piece_ = std::string(std::size_t{1} << 16, '\0');
};

using Write = std::function<void(std::string_view bytes)>;

void write_rows(const ImageView& image, const Write& write) {
  constexpr std::uint8_t kNoFilter = 0;
  RowWriter rows([&](std::string_view piece) { write(chunk("IDAT", piece)); });
  for (std::int64_t y = 0; y < image.shape.height; ++y) {
    rows.add({&kNoFilter, 1});
    rows.add({image.row(y), image.row_bytes()});
  }
  rows.finish();
}

void encode(const ImageView& image, const Write& write) {
  ASSERT(image.shape.fixed() && (image.shape.channels == 1 || image.shape.channels == 3));
  write("\x89PNG\r\n\x1a\n" + chunk("IHDR", header(image.shape)));
  write_rows(image, write);
  write(chunk("IEND", ""));
}

}  // namespace

void write_png(const std::filesystem::path& path, const ImageView& image) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  ENSURE(resource, fs::is_directory(folder),
         "cannot write {}: there is no folder {}; make it, or choose another name with --out",
         printable(path.string()), printable(folder.string()));
  const std::string label = path.string();
  write_atomically(path, [&](int fd) {
    encode(image, [&](std::string_view bytes) { write_all(fd, bytes, label); });
  });
}

std::string png_of(const ImageView& image) {
  std::string file;
  encode(image, [&](std::string_view bytes) { file += bytes; });
  return file;
}

}  // namespace trainctl::data
