#include "data/image/codec/opencv.hpp"

#include "base/error.hpp"
#include "base/machine/shared_library.hpp"
#include "data/image/geometry.hpp"

#include <cstdlib>
#include <cstring>

namespace trainctl::data {
namespace {

enum class ByteOrder { little, big };

/// Reads numbers from a file. An offset after its end is Error(data).
class HeaderBytes {
 public:
  HeaderBytes(std::span<const std::byte> file, ByteOrder order) : file_(file), order_(order) {}

  [[nodiscard]] std::uint32_t number(std::size_t at, std::size_t bytes) const {
    ENSURE(data, at <= file_.size() && bytes <= file_.size() - at,
           "damaged image: its header refers to byte {}, but the file has {} bytes", at + bytes - 1,
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

enum Tag : std::uint32_t {
  kWidth = 256,
  kHeight = 257,
  kBits = 258,
  kCompression = 259,
  kOrientation = 274,
  kSamples = 277,
  kTileWidth = 322,
  kTileHeight = 323,
  kAlpha = 338,
  kFormat = 339
};
constexpr std::array kTags{kWidth,   kHeight,    kBits,       kCompression, kOrientation,
                           kSamples, kTileWidth, kTileHeight, kAlpha,       kFormat};
enum Type : std::uint32_t { kShort = 3, kLong = 4 };
constexpr std::uint32_t kUncompressed = 1;
constexpr std::uint32_t kFloat = 3;
constexpr std::uint32_t kMostBits = 16;

/// The relevant entries of the first page: tag, type, count and value, 12 bytes each.
class Page {
 public:
  explicit Page(const HeaderBytes& file) : file_(file) {
    const std::size_t page = file.number(4, 4);
    for (std::uint32_t i = 0; i < file.number(page, 2); ++i) add(page + 2 + std::size_t{12} * i);
  }

  /// Returns the offset of the lower 16 bits of a tag's only value, or 0 without such a value.
  [[nodiscard]] std::size_t value_at(Tag tag) const {
    const std::size_t entry = entries_[index_of(tag)];
    if (entry == 0 || count(entry) != 1) return 0;
    return entry + (bytes_of(entry) == 4 && file_.order() == ByteOrder::big ? 10 : 8);
  }
  [[nodiscard]] std::uint32_t number(Tag tag, std::uint32_t otherwise) const {
    const std::size_t entry = entries_[index_of(tag)];
    if (entry == 0) return otherwise;
    ENSURE(data, count(entry) == 1, "damaged TIFF: tag {} must have one value, got {}",
           static_cast<int>(tag), count(entry));
    return file_.number(entry + 8, bytes_of(entry));
  }
  /// Returns the first value of a list, which is stored elsewhere if longer than four bytes.
  [[nodiscard]] std::uint32_t first(Tag tag, std::uint32_t otherwise) const {
    const std::size_t entry = entries_[index_of(tag)];
    if (entry == 0 || count(entry) == 0) return otherwise;
    const std::size_t bytes = bytes_of(entry);
    const bool here = count(entry) <= 4 / bytes;
    return file_.number(here ? entry + 8 : file_.number(entry + 8, 4), bytes);
  }

 private:
  /// Returns the index of a tag among the relevant tags, or their number for any other tag.
  static std::size_t index_of(std::uint32_t tag) {
    std::size_t i = 0;
    while (i < kTags.size() && kTags[i] != tag) ++i;
    return i;
  }
  void add(std::size_t entry) {
    const std::uint32_t tag = file_.number(entry, 2);
    const std::size_t index = index_of(tag);
    if (index == kTags.size()) return;
    const std::uint32_t type = file_.number(entry + 2, 2);
    ENSURE(data, type == kShort || type == kLong, "damaged TIFF: tag {} has the invalid type {}",
           tag, type);
    ENSURE(data, entries_[index] == 0, "damaged TIFF: duplicate tag {}", tag);
    entries_[index] = entry;
  }
  [[nodiscard]] std::uint32_t count(std::size_t entry) const { return file_.number(entry + 4, 4); }
  [[nodiscard]] std::size_t bytes_of(std::size_t entry) const {
    return file_.number(entry + 2, 2) == kShort ? 2 : 4;
  }

  HeaderBytes file_;
  std::array<std::size_t, kTags.size()> entries_{};
};

/// The properties of a WebP, BMP or TIFF image that its header claims.
struct ImageHeader {
  Extents stored;       // size of the stored pixels
  int orientation = 1;  // TIFF orientation, 1 to 8
  bool is_tiff = false;
  /// Offsets of the 16-bit TIFF values for orientation and associated alpha, which must be 1 for
  /// plain pixels. 0: the value is absent or already plain.
  std::array<std::size_t, 2> not_plain_at{};
};

/// Throws Error(data) when uncompressed rows of that many bytes do not fit into a file.
void check_size(const char* format, const Extents& image, std::uint64_t row_bytes,
                std::size_t file_bytes) {
  ENSURE(data, row_bytes <= file_bytes / static_cast<std::uint64_t>(image.height),
         "damaged {}: its header has {}x{} pixels without compression, which do not fit into a "
         "file of {} bytes",
         format, image.width, image.height, file_bytes);
}

void check_samples(const Page& page) {
  const std::uint32_t bits = page.first(kBits, 1);
  const char* kind = page.first(kFormat, 1) == kFloat ? "float" : "integer";
  ENSURE(data, bits <= kMostBits && *kind != 'f',
         "TIFF with {}-bit {} samples is not supported\nhint: convert it to 8 or 16-bit integers",
         bits, kind);
}

ImageHeader read_tiff_header(const HeaderBytes& file, const DecodeLimits& limits) {
  const Page page(file);
  ImageHeader header;
  header.is_tiff = true;
  header.stored = {page.number(kHeight, 0), page.number(kWidth, 0)};
  check_extents(header.stored.height, header.stored.width, limits);
  check_extents(page.number(kTileHeight, 1), page.number(kTileWidth, 1), limits);
  check_samples(page);
  const std::uint32_t orientation = page.number(kOrientation, 1);
  header.orientation = orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1;
  header.not_plain_at = {page.value_at(kOrientation), page.value_at(kAlpha)};
  if (page.number(kCompression, kUncompressed) == kUncompressed) {
    const std::uint64_t row =
        std::uint64_t{page.first(kBits, 1)} * page.number(kSamples, 1) * page.number(kWidth, 0);
    check_size("TIFF", header.stored, (row + 7) / 8, file.size());
  }
  return header;
}

Extents webp_extents(const HeaderBytes& header) {
  constexpr std::uint32_t kAnimated = 0x02;
  if (header.holds(12, "VP8X")) {
    ENSURE(data, (header.number(20, 1) & kAnimated) == 0,
           "animated WebP is not supported\nhint: convert it to a still image");
    return {header.number(27, 3) + 1, header.number(24, 3) + 1};
  }
  if (header.holds(12, "VP8L")) {
    const std::uint32_t bits = header.number(21, 4);
    return {(bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1};
  }
  ENSURE(data, header.holds(12, "VP8 "), "damaged WebP: its first chunk is unknown");
  return {header.number(28, 2) & 0x3FFF, header.number(26, 2) & 0x3FFF};
}

Extents bmp_extents(const HeaderBytes& header, const DecodeLimits& limits) {
  constexpr std::uint32_t kOldHeader = 12;
  enum : std::uint32_t { kPlain = 0, kMasks = 3 };
  Extents image;
  std::uint32_t bits = 0;
  std::uint32_t compression = kPlain;
  if (header.number(14, 4) == kOldHeader) {
    image = {header.number(20, 2), header.number(18, 2)};
    bits = header.number(24, 2);
  } else {
    // A negative height means that rows are stored top to bottom.
    image = {std::abs(std::int64_t{static_cast<std::int32_t>(header.number(22, 4))}),
             static_cast<std::int32_t>(header.number(18, 4))};
    bits = header.number(28, 2);
    compression = header.number(30, 4);
  }
  check_extents(image.height, image.width, limits);
  const std::uint64_t row = static_cast<std::uint64_t>(image.width) * bits;
  if (compression == kPlain || compression == kMasks)  // rows are padded to multiples of 4 bytes
    check_size("BMP", image, (row + 31) / 32 * 4, header.size());
  return image;
}

/// Parses a header, including tiles. Throws Error(data) when it is damaged, exceeds the limits or
/// claims more pixels than an uncompressed file can hold.
ImageHeader read_header(std::span<const std::byte> file, const DecodeLimits& limits) {
  const HeaderBytes little(file, ByteOrder::little);
  ImageHeader header;
  if (little.holds(0, "RIFF")) {
    header.stored = webp_extents(little);
    check_extents(header.stored.height, header.stored.width, limits);
    return header;
  }
  if (little.holds(0, "BM")) {
    header.stored = bmp_extents(little, limits);
    return header;
  }
  const HeaderBytes big(file, ByteOrder::big);
  return read_tiff_header(little.holds(0, "II") ? little : big, limits);
}

// OpenCV reads this limit while it is loaded. It is a second safeguard after the header checks.
OpencvDecode load() {
  ::setenv("OPENCV_IO_MAX_IMAGE_PIXELS", std::to_string(kMostPixels).c_str(), 1);
  const char* cause = nullptr;
  void* symbol = find_in_module(kOpencvLibrary, kOpencvSymbol, cause);
  ENSURE(resource, symbol != nullptr, "cannot load {}, which WebP, BMP and TIFF files require: {}",
         kOpencvLibrary, cause);
  return reinterpret_cast<OpencvDecode>(symbol);
}

OpencvDecode opencv_decode() {
  static const OpencvDecode decode = load();
  return decode;
}

class OpencvDecoder final : public FormatDecoder {
 public:
  explicit OpencvDecoder(const DecodeLimits& limits) : limits_(limits) {}

  ImageShape open(std::span<const std::byte> file) override {
    file_ = {};
    ENSURE(data, file.size() <= std::size_t{std::numeric_limits<int>::max()},
           "the image file has {} bytes, more than the limit of {} bytes", file.size(),
           std::numeric_limits<int>::max());
    header_ = read_header(file, limits_);
    const Extents upright = upright_extents(header_.stored, header_.orientation);
    opencv_decode();
    file_ = file;
    return {upright.height, upright.width, 3};
  }

  void decode(const Box& box, Reading, std::uint8_t* out) override {
    ASSERT(!file_.empty());
    const auto [height, width] = header_.stored;
    const ImageShape stored{height, width, 3};
    const bool whole = header_.orientation == 1 && box == Box{0, 0, height, width};
    if (!whole) pixels_.resize(stored.bytes());
    std::uint8_t* pixels = whole ? out : pixels_.data();
    const std::span<const std::byte> file = plain_file();
    const OpencvResult result =
        opencv_decode()({file.data(), file.size(), header_.is_tiff, height, width, pixels});
    ENSURE(data, result != OpencvResult::unsupported,
           "TIFF with this pixel format is not supported\nhint: convert it to 8-bit RGB");
    ENSURE(
        data, result != OpencvResult::other_extents,
        "damaged image: the size that OpenCV decodes differs from the {}x{} pixels of the header",
        width, height);
    ENSURE(data, result == OpencvResult::decoded, "damaged image: OpenCV cannot decode it");
    if (!whole) copy_upright(ImageView(pixels, stored), header_.orientation, box, out);
  }

 private:
  /// Returns the file, or a copy that declares its pixels plain: some versions of OpenCV rotate a
  /// TIFF, and libtiff premultiplies by alpha.
  std::span<const std::byte> plain_file() {
    if (header_.not_plain_at == std::array<std::size_t, 2>{}) return file_;
    copy_.assign(file_.begin(), file_.end());
    const bool little = copy_[0] == std::byte{'I'};
    for (const std::size_t at : header_.not_plain_at) {
      if (at == 0) continue;
      copy_[at] = std::byte{little ? std::uint8_t{1} : std::uint8_t{0}};
      copy_[at + 1] = std::byte{little ? std::uint8_t{0} : std::uint8_t{1}};
    }
    return copy_;
  }

  DecodeLimits limits_;
  std::span<const std::byte> file_;
  ImageHeader header_;
  std::vector<std::byte> copy_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace

std::unique_ptr<FormatDecoder> make_opencv_decoder(const DecodeLimits& limits) {
  return std::make_unique<OpencvDecoder>(limits);
}

}  // namespace trainctl::data
