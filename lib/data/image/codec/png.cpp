#include "data/image/codec/png.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

namespace trainctl::data {
namespace {

// The densest deflate code emits 258 bytes for two bits.
constexpr std::uint64_t kMostInflation = 1032;

/// A PNG file whose header has been read.
struct PngFile {
  explicit PngFile(std::span<const std::byte> bytes) : file(bytes) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_error);
    info = png == nullptr ? nullptr : png_create_info_struct(png);
    if (info != nullptr) return;
    png_destroy_read_struct(&png, nullptr, nullptr);
    throw Error(ErrorKind::resource, "cannot initialize libpng: out of memory");
  }
  ~PngFile() { png_destroy_read_struct(&png, &info, nullptr); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  /// Runs calls of libpng, which may leave by longjmp(): `body` must not own anything.
  template <class Body>
  void guard(const Body& body) {
    if (setjmp(png_jmpbuf(png)) != 0) fail();
    body();
  }
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::data, fmt::format("damaged PNG: {}", message.data()));
  }

  static void on_error(png_structp png, png_const_charp text) {
    auto* self = static_cast<PngFile*>(png_get_error_ptr(png));
    std::strncpy(self->message.data(), text, self->message.size() - 1);
    png_longjmp(png, 1);
  }
  static void on_read(png_structp png, png_bytep out, std::size_t count) {
    auto* self = static_cast<PngFile*>(png_get_io_ptr(png));
    if (count > self->file.size() - self->at) png_error(png, "the file is truncated");
    std::memcpy(out, self->file.data() + self->at, count);
    self->at += count;
  }

  void read_header() {
    png_set_read_fn(png, this, on_read);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // open() has checked the product
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // Unknown chunks are not needed and often malformed.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
  }

  void read_lines(const Box& box, Reading reading, std::uint8_t* out) {
    const auto bytes = static_cast<std::size_t>(box.width) * 3;
    const std::int64_t height = png_get_image_height(png, info);
    const std::int64_t end = reading == Reading::whole_file ? height : box.top + box.height;
    for (std::int64_t y = 0; y < end; ++y) {
      png_read_row(png, pixels.data(), nullptr);
      if (y < box.top || y >= box.top + box.height) continue;
      std::memcpy(out, pixels.data() + box.left * 3, bytes);
      out += bytes;
    }
  }

  void read_interlaced(const Box& box, int passes, std::uint8_t* out) {
    const std::size_t stride = std::size_t{png_get_image_width(png, info)} * 3;
    for (int pass = 0; pass < passes; ++pass) {
      for (std::size_t y = 0; y < png_get_image_height(png, info); ++y)
        png_read_row(png, pixels.data() + y * stride, nullptr);
    }
    const auto bytes = static_cast<std::size_t>(box.width) * 3;
    for (std::int64_t y = box.top; y < box.top + box.height; ++y, out += bytes)
      std::memcpy(out, pixels.data() + static_cast<std::size_t>(y) * stride + box.left * 3, bytes);
  }

  std::span<const std::byte> file;
  std::size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::array<char, 128> message{};
  std::vector<std::uint8_t> pixels;  // one row, or a whole interlaced image
};

class PngDecoder final : public FormatDecoder {
 public:
  explicit PngDecoder(const DecodeLimits& limits) : limits_(limits) {}

  // The header has a fixed position: 8 bytes of signature, length and name of the chunk, then
  // width, height, depth and color.
  ImageShape open(std::span<const std::byte> file) override {
    constexpr std::size_t kHeader = 33;
    ENSURE(data, file.size() >= kHeader,
           "damaged PNG: the file ends after {} bytes, within the header", file.size());
    const auto at = [&](std::size_t i) { return std::to_integer<std::uint64_t>(file[i]); };
    const auto number = [&](std::size_t i) {
      return static_cast<std::int64_t>(at(i) << 24 | at(i + 1) << 16 | at(i + 2) << 8 | at(i + 3));
    };
    const std::int64_t width = number(16);
    const std::int64_t height = number(20);
    check_extents(height, width, limits_);
    const std::uint64_t least =
        static_cast<std::uint64_t>(width * height) * std::min<std::uint64_t>(at(24), 8) / 8;
    ENSURE(data, least <= file.size() * kMostInflation,
           "damaged PNG: its header has {}x{} pixels, which do not fit into a file of {} bytes",
           width, height, file.size());
    open_ = std::make_unique<PngFile>(file);
    open_->guard([&] { open_->read_header(); });
    return {height, width, 3};
  }

  void decode(const Box& box, Reading reading, std::uint8_t* out) override {
    ASSERT(open_ != nullptr);
    const std::unique_ptr<PngFile> file = std::move(open_);
    const std::size_t width = png_get_image_width(file->png, file->info);
    const std::size_t height = png_get_image_height(file->png, file->info);
    ASSERT(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0);
    ASSERT(box.top + box.height <= static_cast<std::int64_t>(height));
    ASSERT(box.left + box.width <= static_cast<std::int64_t>(width));
    const bool interlaced = png_get_interlace_type(file->png, file->info) != PNG_INTERLACE_NONE;
    file->pixels.resize(width * 3 * (interlaced ? height : 1));
    file->guard([&] {
      const int passes = png_set_interlace_handling(file->png);
      png_read_update_info(file->png, file->info);
      if (png_get_rowbytes(file->png, file->info) != width * 3)
        png_error(file->png, "its rows have an unexpected length");
      if (interlaced) {
        file->read_interlaced(box, passes, out);
      } else {
        file->read_lines(box, reading, out);
      }
      if (reading == Reading::whole_file) png_read_end(file->png, nullptr);
    });
  }

 private:
  DecodeLimits limits_;
  std::unique_ptr<PngFile> open_;
};

}  // namespace

std::unique_ptr<FormatDecoder> make_png_decoder(const DecodeLimits& limits) {
  return std::make_unique<PngDecoder>(limits);
}

void write_png(const std::filesystem::path& path, const ImageView& image) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  ENSURE(resource, fs::is_directory(folder),
         "cannot write {}: folder {} does not exist\nhint: create it, or choose another path with "
         "--out",
         printable(path.string()), printable(folder.string()));
  write_atomically(path, png_of(image));
}

std::string png_of(const ImageView& image) {
  ASSERT(image.shape.fixed() && (image.shape.channels == 1 || image.shape.channels == 3));
  png_image file{};
  file.version = PNG_IMAGE_VERSION;
  file.width = static_cast<png_uint_32>(image.shape.width);
  file.height = static_cast<png_uint_32>(image.shape.height);
  file.format = image.shape.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  // Slower settings save a fifth of the bytes but take twice the time.
  file.flags = PNG_IMAGE_FLAG_FAST;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(file), '\0');
  png_alloc_size_t size = bytes.size();
  ENSURE(resource,
         ::png_image_write_to_memory(&file, bytes.data(), &size, 0, image.pixels,
                                     static_cast<png_int_32>(image.stride), nullptr) != 0,
         "cannot compress an image: {}", file.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace trainctl::data
