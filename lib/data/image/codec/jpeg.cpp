#include "data/image/codec/jpeg.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>  // jpeglib.h requires it
#include <cstring>
#include <new>

namespace trainctl::data {
namespace {

/// Error handlers for libjpeg that leave the library by longjmp() with a message. Warnings are
/// treated as errors, because they mean damaged data. libjpeg passes a pointer to the first member.
struct JpegErrors {
  jpeg_error_mgr base{};
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};

  /// Returns the `err` of a libjpeg object, which must not outlive this object.
  jpeg_error_mgr* handlers() {
    jpeg_std_error(&base);
    base.error_exit = [](j_common_ptr info) { leave(info); };
    base.emit_message = [](j_common_ptr info, int level) {
      if (level < 0) leave(info);
    };
    base.output_message = [](j_common_ptr) {};
    return &base;
  }

  /// Runs calls of libjpeg and returns whether they succeeded. They may leave by longjmp(), so
  /// `body` must not own anything.
  template <class Body>
  [[nodiscard]] bool done(const Body& body) {
    if (setjmp(jump) != 0) return false;
    body();
    return true;
  }

  static JpegErrors& of(j_common_ptr info) { return *reinterpret_cast<JpegErrors*>(info->err); }

  /// Leaves libjpeg with a custom message.
  template <class... Values>
  [[noreturn]] void fail_with(fmt::format_string<Values...> text, Values&&... values) {
    *fmt::format_to_n(message.data(), message.size() - 1, text, std::forward<Values>(values)...)
         .out = '\0';
    std::longjmp(jump, 1);
  }

 private:
  [[noreturn]] static void leave(j_common_ptr info) {
    JpegErrors& errors = of(info);
    errors.base.format_message(info, errors.message.data());
    std::longjmp(errors.jump, 1);
  }
};

// Upsampling reads neighboring pixels. With this margin, the pixels of the box are the same as in a
// full decode.
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

class JpegDecoder final : public FormatDecoder {
 public:
  explicit JpegDecoder(const DecodeLimits& limits) : limits_(limits) {
    info_.err = errors_.handlers();
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  ImageShape open(std::span<const std::byte> file) override {
    // jpeg_abort_decompress() would keep the tables of the previous file, and a file without tables
    // would be decoded with them.
    jpeg_destroy_decompress(&info_);
    guard([&] {
      jpeg_create_decompress(&info_);
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
      jpeg_read_header(&info_, TRUE);
    });
    check_work(file);
    const bool cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    ENSURE(data, cmyk || info_.num_components == 1 || info_.num_components == 3,
           "the JPEG must be gray, RGB or CMYK, got {} components\nhint: convert it to RGB",
           info_.num_components);
    info_.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    return {info_.image_height, info_.image_width, 3};
  }

  void decode(const Box& box, Reading reading, std::uint8_t* out) override {
    ASSERT(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0);
    ASSERT(box.top + box.height <= info_.image_height && box.left + box.width <= info_.image_width);
    row_.resize(std::size_t{info_.image_width} * 4);
    guard([&] {
      jpeg_start_decompress(&info_);
      read_box(box, out);
      if (reading == Reading::needed_part) return jpeg_abort_decompress(&info_);
      // Skipping all lines to the end would not verify the skipped data.
      if (info_.output_scanline + 1 < info_.output_height)
        jpeg_skip_scanlines(&info_, info_.output_height - 1 - info_.output_scanline);
      read_rows(info_.output_height);
      jpeg_finish_decompress(&info_);
    });
  }

 private:
  /// Runs calls of libjpeg, which may leave by longjmp(): `body` must not own anything.
  template <class Body>
  void guard(const Body& body) {
    if (errors_.done(body)) return;
    jpeg_abort_decompress(&info_);
    throw Error(ErrorKind::data, fmt::format("damaged JPEG: {}", errors_.message.data()));
  }

  /// Rejects headers that claim more than the file can hold, and files that are slow to decode.
  void check_work(std::span<const std::byte> file) {
    check_extents(info_.image_height, info_.image_width, limits_);
    std::int64_t blocks = 0;
    for (const jpeg_component_info& one :
         std::span(info_.comp_info, static_cast<std::size_t>(info_.num_components)))
      blocks += std::int64_t{one.width_in_blocks} * one.height_in_blocks;
    // A Huffman code has at least one bit, and each block at least one code.
    const auto bits = static_cast<std::int64_t>(file.size()) * 8;
    ENSURE(data, info_.arith_code != 0 || blocks <= bits,
           "damaged JPEG: its header has {}x{} pixels, which do not fit into a file of {} bytes",
           info_.image_width, info_.image_height, file.size());
    // A file with one scan needs no memory for its coefficients.
    if (jpeg_has_multiple_scans(&info_) == 0) return;
    const std::int64_t scans = count_jpeg_scans(file, limits_.scans);
    const std::int64_t pixels = std::int64_t{info_.image_width} * info_.image_height;
    ENSURE(data, scans <= limits_.scans && scans * pixels <= limits_.scanned_pixels,
           "the JPEG has at least {} scans of {}x{} pixels, more than the limit of {} scans or {} "
           "pixels in all scans\nhint: save it as a JPEG that is not progressive",
           scans, info_.image_width, info_.image_height, limits_.scans,
           with_thousands(limits_.scanned_pixels));
  }

  void read_rows(std::int64_t until) {
    JSAMPROW rows[1] = {row_.data()};
    while (info_.output_scanline < until) jpeg_read_scanlines(&info_, rows, 1);
  }

  void read_box(const Box& box, std::uint8_t* out) {
    JDIMENSION left = 0;
    if (box.width + 2 * kMargin < info_.output_width) {
      const std::int64_t first = std::max<std::int64_t>(box.left - kMargin, 0);
      const std::int64_t end =
          std::min<std::int64_t>(box.left + box.width + kMargin, info_.output_width);
      left = static_cast<JDIMENSION>(first);
      auto width = static_cast<JDIMENSION>(end - first);
      jpeg_crop_scanline(&info_, &left, &width);
    }
    if (box.top > kMargin) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(box.top - kMargin));
    read_rows(box.top);
    const auto bytes = static_cast<std::size_t>(box.width) * 3;
    for (std::int64_t y = box.top; y < box.top + box.height; ++y, out += bytes) {
      read_rows(y + 1);
      const std::uint8_t* from = row_.data() + (box.left - left) * info_.output_components;
      if (info_.out_color_space == JCS_CMYK) {
        cmyk_to_rgb(from, box.width, out);
      } else {
        std::memcpy(out, from, bytes);
      }
    }
  }

  DecodeLimits limits_;
  JpegErrors errors_;
  jpeg_decompress_struct info_{};
  std::vector<std::uint8_t> row_;
};

}  // namespace

std::unique_ptr<FormatDecoder> make_jpeg_decoder(const DecodeLimits& limits) {
  return std::make_unique<JpegDecoder>(limits);
}

namespace {

// A marker is FF and a code. FF 00 is an escaped FF in the compressed data; D0 to D7 are restart
// markers; all others except 01, D8 and D9 start a segment with a length. Segments are skipped,
// because their content (such as a thumbnail) may contain marker bytes. Stops counting above
// `most`.
template <class Counts>
std::int64_t count_segments(std::span<const std::byte> file, std::int64_t most,
                            const Counts& counts) {
  constexpr std::byte kMarker{0xFF};
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(file[i]); };
  std::int64_t segments = 0;
  std::size_t i = 2;
  while (i + 3 < file.size() && segments <= most) {
    if (file[i] != kMarker) {
      i = static_cast<std::size_t>(
          std::find(file.begin() + static_cast<std::ptrdiff_t>(i), file.end(), kMarker) -
          file.begin());
      continue;
    }
    const unsigned code = at(i + 1);
    if (code == 0xD9) break;
    if (code == 0xFF) {
      i += 1;
    } else if (code <= 0x01 || (code >= 0xD0 && code <= 0xD8)) {
      i += 2;
    } else {
      segments += counts(code) ? 1 : 0;
      i += 2 + at(i + 2) * 256 + at(i + 3);
    }
  }
  return segments;
}

}  // namespace

std::int64_t count_jpeg_scans(std::span<const std::byte> file, std::int64_t most) {
  return count_segments(file, most, [](unsigned code) { return code == 0xDA; });
}

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16;

/// The output of libjpeg, which passes a pointer to the first member to its callbacks.
struct Destination {
  jpeg_destination_mgr base;
  std::array<JOCTET, kPiece> piece;
  std::vector<std::byte>* out;
};

void begin_piece(j_compress_ptr info) {
  auto* to = reinterpret_cast<Destination*>(info->dest);
  to->base.next_output_byte = to->piece.data();
  to->base.free_in_buffer = to->piece.size();
}

// Exceptions must not propagate through libjpeg.
void take_bytes(j_compress_ptr info, const Destination& from, std::size_t count) {
  const auto* bytes = reinterpret_cast<const std::byte*>(from.piece.data());
  bool taken = false;
  try {
    from.out->insert(from.out->end(), bytes, bytes + count);
    taken = true;
  } catch (const std::bad_alloc&) {
    taken = false;
  }
  if (!taken) JpegErrors::of(reinterpret_cast<j_common_ptr>(info)).fail_with("out of memory");
}

boolean take_piece(j_compress_ptr info) {
  auto* from = reinterpret_cast<Destination*>(info->dest);
  take_bytes(info, *from, from->piece.size());
  begin_piece(info);
  return TRUE;
}

void take_rest(j_compress_ptr info) {
  auto* from = reinterpret_cast<Destination*>(info->dest);
  take_bytes(info, *from, from->piece.size() - from->base.free_in_buffer);
}

void count_scans(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number <= kMostScans) return;
  JpegErrors::of(info).fail_with("the file has more than {} scans", kMostScans);
}

/// Owns a decompression and a compression object of libjpeg. Calls may leave by longjmp(), so code
/// in guard() must not own anything.
class Jpeg {
 public:
  explicit Jpeg(std::vector<std::byte>& out) {
    read.err = write.err = errors_.handlers();
    to_.base.init_destination = begin_piece;
    to_.base.empty_output_buffer = take_piece;
    to_.base.term_destination = take_rest;
    to_.out = &out;
    progress_.progress_monitor = count_scans;
    guard([&] {
      jpeg_create_decompress(&read);
      jpeg_create_compress(&write);
    });
    read.progress = &progress_;
    write.dest = &to_.base;
  }
  ~Jpeg() {
    jpeg_destroy_compress(&write);
    jpeg_destroy_decompress(&read);
  }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  template <class Body>
  void guard(const Body& body) {
    if (!errors_.done(body))
      throw Error(ErrorKind::data,
                  fmt::format("cannot convert to JPEG: {}", errors_.message.data()));
  }

  jpeg_decompress_struct read{};
  jpeg_compress_struct write{};

 private:
  JpegErrors errors_;
  Destination to_{};
  jpeg_progress_mgr progress_{};
};

bool begins_with(const jpeg_marker_struct& marker, std::string_view text) {
  return marker.data_length >= text.size() &&
         std::memcmp(marker.data, text.data(), text.size()) == 0;
}

/// Copies all markers of the input except those that libjpeg has already written.
void copy_markers(jpeg_decompress_struct& from, jpeg_compress_struct& to) {
  using namespace std::string_view_literals;
  for (const jpeg_marker_struct* marker = from.marker_list; marker != nullptr;
       marker = marker->next) {
    const bool jfif = to.write_JFIF_header != 0 && marker->marker == JPEG_APP0 &&
                      begins_with(*marker, "JFIF\0"sv);
    const bool adobe = to.write_Adobe_marker != 0 && marker->marker == JPEG_APP0 + 14 &&
                       begins_with(*marker, "Adobe"sv);
    if (!jfif && !adobe) jpeg_write_marker(&to, marker->marker, marker->data, marker->data_length);
  }
}

void transcode(jpeg_decompress_struct& from, jpeg_compress_struct& to) {
  jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&from);
  jpeg_copy_critical_parameters(&from, &to);
  to.optimize_coding = TRUE;
  jpeg_write_coefficients(&to, coefficients);
  copy_markers(from, to);
  jpeg_finish_compress(&to);
  jpeg_finish_decompress(&from);
}

void open(jpeg_decompress_struct& from, std::span<const std::byte> file) {
  constexpr unsigned kWholeMarker = 0xFFFF;
  jpeg_mem_src(&from, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_save_markers(&from, JPEG_COM, kWholeMarker);
  for (int app = 0; app < 16; ++app) jpeg_save_markers(&from, JPEG_APP0 + app, kWholeMarker);
  jpeg_read_header(&from, TRUE);
}

}  // namespace

bool is_jpeg(std::span<const std::byte> file) {
  constexpr std::array kStart{std::byte{0xFF}, std::byte{0xD8}, std::byte{0xFF}};
  return file.size() > kStart.size() && std::equal(kStart.begin(), kStart.end(), file.begin());
}

std::vector<std::byte> baseline_jpeg(std::span<const std::byte> file) {
  constexpr std::int64_t kMostMetadata = 10'000;  // libjpeg walks through them for each one
  const auto is_metadata = [](unsigned code) { return code >= 0xE0; };
  ENSURE(data, count_segments(file, kMostMetadata, is_metadata) <= kMostMetadata,
         "the JPEG has more than {} segments of metadata\nhint: save it without metadata",
         with_thousands(kMostMetadata));
  std::vector<std::byte> out;
  Jpeg jpeg(out);
  jpeg.guard([&] { open(jpeg.read, file); });
  ENSURE(data, std::int64_t{jpeg.read.image_width} * jpeg.read.image_height <= kMostPixels,
         "the image of {}x{} pixels is larger than the limit of {} pixels\nhint: resize it",
         jpeg.read.image_width, jpeg.read.image_height, with_thousands(kMostPixels));
  if (jpeg.read.progressive_mode == 0) return out;
  out.reserve(file.size() + file.size() / 8);
  jpeg.guard([&] { transcode(jpeg.read, jpeg.write); });
  return out;
}

std::vector<std::byte> write_jpeg(const ImageView& image, int quality) {
  const auto channels = static_cast<int>(image.shape.channels);
  ASSERT(channels == 1 || channels == 3);
  std::vector<std::byte> out;
  Jpeg jpeg(out);
  jpeg.guard([&] {
    jpeg.write.image_width = static_cast<JDIMENSION>(image.shape.width);
    jpeg.write.image_height = static_cast<JDIMENSION>(image.shape.height);
    jpeg.write.input_components = channels;
    jpeg.write.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg.write);
    jpeg_set_quality(&jpeg.write, quality, TRUE);
    jpeg.write.optimize_coding = TRUE;
    jpeg_start_compress(&jpeg.write, TRUE);
    for (std::int64_t y = 0; y < image.shape.height; ++y) {
      JSAMPROW row = const_cast<JSAMPROW>(image.row(y));  // libjpeg only reads it
      jpeg_write_scanlines(&jpeg.write, &row, 1);
    }
    jpeg_finish_compress(&jpeg.write);
  });
  return out;
}

}  // namespace trainctl::data
