#include "data/image/codec/jpeg.hpp"

#include "base/error.hpp"
#include "data/image/codec/jpeg_errors.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace trainctl::data {
namespace {

// Upsampling looks at its neighbours: so many pixels more, and those of the box are as in the whole
// image.
constexpr std::int64_t kMargin = 2;

std::uint8_t times(std::uint8_t ink, std::uint8_t black) {
  const int product = black * (255 - ink) + 128;
  return static_cast<std::uint8_t>(black - ((product + (product >> 8)) >> 8));
}

void cmyk_to_rgb(const std::uint8_t* from, std::int64_t count, std::uint8_t* to) {
  for (std::int64_t i = 0; i < count; ++i, from += 4, to += 3) {
    for (std::size_t c = 0; c < 3; ++c) to[c] = times(from[c], from[3]);
  }
}

}  // namespace

struct JpegDecoder::State {
  explicit State(const DecodeLimits& given) : limits(given) { info.err = errors.handlers(); }
  ~State() { jpeg_destroy_decompress(&info); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Runs calls of libjpeg, which leaves them by a jump: `body` must own nothing.
  template <class Body>
  void guard(const Body& body) {
    if (!errors.done(body)) fail();
  }
  [[noreturn]] void fail();
  void start_anew();

  void check_work(std::span<const std::byte> file) const;
  void read_box(const Box& box, std::uint8_t* out);
  void read_rows(std::int64_t until);

  DecodeLimits limits;
  JpegErrors errors;
  jpeg_decompress_struct info{};
  std::vector<std::uint8_t> row;
};

void JpegDecoder::State::fail() {
  jpeg_abort_decompress(&info);
  throw Error(ErrorKind::data, fmt::format("damaged JPEG: {}", errors.message.data()));
}

/// jpeg_abort_decompress() would keep the tables of the last file, and a file without its own would
/// be decoded by them.
void JpegDecoder::State::start_anew() {
  jpeg_destroy_decompress(&info);
  guard([&] { jpeg_create_decompress(&info); });
}

/// Refuses what its header promises but the file cannot hold, and what would take long to decode.
void JpegDecoder::State::check_work(std::span<const std::byte> file) const {
  check_extents(info.image_height, info.image_width, limits);
  std::int64_t blocks = 0;
  for (int i = 0; i < info.num_components; ++i) {
    blocks += std::int64_t{info.comp_info[i].width_in_blocks} * info.comp_info[i].height_in_blocks;
  }
  // A Huffman code has at least one bit, and each block at least one code.
  const auto bits = static_cast<std::int64_t>(file.size()) * 8;
  ENSURE(data, info.arith_code != 0 || blocks <= bits,
         "the JPEG claims {}x{} pixels, which do not fit into {} bytes: it is cut off or forged",
         info.image_width, info.image_height, file.size());
  // Those of one scan need no memory of their own.
  if (jpeg_has_multiple_scans(const_cast<j_decompress_ptr>(&info)) == 0) return;
  const std::int64_t scans = count_jpeg_scans(file, limits.scans);
  const std::int64_t pixels = std::int64_t{info.image_width} * info.image_height;
  ENSURE(data, scans <= limits.scans && scans * pixels <= limits.scanned_pixels,
         "the JPEG has {} or more scans of {}x{} pixels; at most {} scans and {} pixels in all are "
         "decoded",
         scans, info.image_width, info.image_height, limits.scans, limits.scanned_pixels);
}

void JpegDecoder::State::read_rows(std::int64_t until) {
  JSAMPROW rows[1] = {row.data()};
  while (info.output_scanline < until) jpeg_read_scanlines(&info, rows, 1);
}

void JpegDecoder::State::read_box(const Box& box, std::uint8_t* out) {
  JDIMENSION left = 0;
  if (box.width + 2 * kMargin < info.output_width) {
    const std::int64_t wished = std::max<std::int64_t>(box.left - kMargin, 0);
    const std::int64_t right =
        std::min<std::int64_t>(box.left + box.width + kMargin, info.output_width);
    left = static_cast<JDIMENSION>(wished);
    auto width = static_cast<JDIMENSION>(right - wished);
    jpeg_crop_scanline(&info, &left, &width);
  }
  if (box.top > kMargin) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(box.top - kMargin));
  read_rows(box.top);
  const bool cmyk = info.out_color_space == JCS_CMYK;
  const auto bytes = static_cast<std::size_t>(box.width) * 3;
  for (std::int64_t y = box.top; y < box.top + box.height; ++y, out += bytes) {
    read_rows(y + 1);
    const std::uint8_t* from = row.data() + (box.left - left) * info.output_components;
    if (cmyk) {
      cmyk_to_rgb(from, box.width, out);
    } else {
      std::memcpy(out, from, bytes);
    }
  }
}

JpegDecoder::JpegDecoder(const DecodeLimits& limits) : state_(std::make_unique<State>(limits)) {}
JpegDecoder::~JpegDecoder() = default;

ImageShape JpegDecoder::open(std::span<const std::byte> file) {
  jpeg_decompress_struct& info = state_->info;
  state_->start_anew();
  state_->guard([&] {
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info, TRUE);
  });
  state_->check_work(file);
  const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  ENSURE(
      data, cmyk || info.num_components == 1 || info.num_components == 3,
      "the JPEG has {} components, which is no known kind of colour; save it as grey, RGB or CMYK",
      info.num_components);
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  return {info.image_height, info.image_width, 3};
}

void JpegDecoder::decode(const Box& box, Reading reading, std::uint8_t* out) {
  jpeg_decompress_struct& info = state_->info;
  ASSERT(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0);
  ASSERT(box.top + box.height <= info.image_height && box.left + box.width <= info.image_width);
  state_->row.resize(std::size_t{info.image_width} * 4);
  state_->guard([&] {
    jpeg_start_decompress(&info);
    state_->read_box(box, out);
    if (reading == Reading::needed_part) return jpeg_abort_decompress(&info);
    // Skipping to the very end would not look at what is skipped.
    if (info.output_scanline + 1 < info.output_height) {
      jpeg_skip_scanlines(&info, info.output_height - 1 - info.output_scanline);
    }
    state_->read_rows(info.output_height);
    jpeg_finish_decompress(&info);
  });
}

}  // namespace trainctl::data
