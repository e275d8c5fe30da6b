#include "data/image/codec/tiff_header.hpp"

#include <array>

namespace trainctl::data {
namespace {

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

/// The entries of the first page that count here: tag, type, count and value, 12 bytes each.
class Page {
 public:
  explicit Page(const HeaderBytes& file) : file_(file) {
    const std::size_t page = file.number(4, 4);
    for (std::uint32_t i = 0; i < file.number(page, 2); ++i) add(page + 2 + std::size_t{12} * i);
  }

  /// Where the lower 16 bits of the only value of a tag lie; 0: there is none.
  [[nodiscard]] std::size_t value_at(Tag tag) const {
    const std::size_t entry = entries_[index_of(tag)];
    if (entry == 0 || count(entry) != 1) return 0;
    return entry + (bytes_of(entry) == 4 && file_.order() == ByteOrder::big ? 10 : 8);
  }
  [[nodiscard]] std::uint32_t number(Tag tag, std::uint32_t otherwise) const {
    const std::size_t entry = entries_[index_of(tag)];
    if (entry == 0) return otherwise;
    ENSURE(data, count(entry) == 1, "damaged TIFF: its tag {} has {} values instead of one",
           static_cast<int>(tag), count(entry));
    return file_.number(entry + 8, bytes_of(entry));
  }
  /// The first of a list, which lies elsewhere where it is longer than four bytes.
  [[nodiscard]] std::uint32_t first(Tag tag, std::uint32_t otherwise) const {
    const std::size_t entry = entries_[index_of(tag)];
    if (entry == 0 || count(entry) == 0) return otherwise;
    const std::size_t bytes = bytes_of(entry);
    const bool here = count(entry) <= 4 / bytes;
    return file_.number(here ? entry + 8 : file_.number(entry + 8, 4), bytes);
  }

 private:
  /// The place of a tag among those that count; beyond them for any other.
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
    ENSURE(data, type == kShort || type == kLong, "damaged TIFF: its tag {} has the odd type {}",
           tag, type);
    ENSURE(data, entries_[index] == 0, "damaged TIFF: its tag {} stands there twice", tag);
    entries_[index] = entry;
  }
  [[nodiscard]] std::uint32_t count(std::size_t entry) const { return file_.number(entry + 4, 4); }
  [[nodiscard]] std::size_t bytes_of(std::size_t entry) const {
    return file_.number(entry + 2, 2) == kShort ? 2 : 4;
  }

  HeaderBytes file_;
  std::array<std::size_t, kTags.size()> entries_{};
};

void check_samples(const Page& page) {
  const std::uint32_t bits = page.first(kBits, 1);
  const char* kind = page.first(kFormat, 1) == kFloat ? "float" : "integer";
  ENSURE(data, bits <= kMostBits && *kind != 'f',
         "not supported: {}-bit {} samples in a TIFF; convert it to 8 or 16-bit integers", bits,
         kind);
}

}  // namespace

ClaimedImage tiff_claim(const HeaderBytes& file, const DecodeLimits& limits) {
  const Page page(file);
  ClaimedImage claim;
  claim.is_tiff = true;
  claim.stored = {page.number(kHeight, 0), page.number(kWidth, 0)};
  check_extents(claim.stored.height, claim.stored.width, limits);
  check_extents(page.number(kTileHeight, 1), page.number(kTileWidth, 1), limits);
  check_samples(page);
  const std::uint32_t orientation = page.number(kOrientation, 1);
  claim.orientation = orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1;
  claim.not_plain_at = {page.value_at(kOrientation), page.value_at(kAlpha)};
  if (page.number(kCompression, kUncompressed) == kUncompressed) {
    const std::uint64_t row =
        std::uint64_t{page.first(kBits, 1)} * page.number(kSamples, 1) * page.number(kWidth, 0);
    check_size("TIFF", claim.stored, (row + 7) / 8, file.size());
  }
  return claim;
}

}  // namespace trainctl::data
