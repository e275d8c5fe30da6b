#include "data/image/codec/jpeg_write.hpp"

#include "base/error.hpp"
#include "data/image/codec/format_decoder.hpp"
#include "data/image/codec/jpeg_errors.hpp"

#include <array>
#include <cstring>
#include <new>
#include <string_view>

namespace trainctl::data {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16;

/// What libjpeg calls back; its first member is what it knows.
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

// No exception may pass through libjpeg.
void take_bytes(j_compress_ptr info, const Destination& from, std::size_t count) {
  const auto* bytes = reinterpret_cast<const std::byte*>(from.piece.data());
  bool taken = false;
  try {
    from.out->insert(from.out->end(), bytes, bytes + count);
    taken = true;
  } catch (const std::bad_alloc&) {
    taken = false;
  }
  if (!taken) JpegErrors::of(reinterpret_cast<j_common_ptr>(info)).leave_with("out of memory");
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
  JpegErrors::of(info).leave_with("it has more than {} scans", kMostScans);
}

/// One libjpeg object of each direction, as far as they were made. Calls leave by a jump: what runs
/// in guard() must own nothing.
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
      throw Error(ErrorKind::data, fmt::format("JPEG: {}", errors_.message.data()));
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

/// All markers of the input but those that libjpeg has written itself.
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
  std::vector<std::byte> out;
  Jpeg jpeg(out);
  jpeg.guard([&] { open(jpeg.read, file); });
  ENSURE(data, std::int64_t{jpeg.read.image_width} * jpeg.read.image_height <= kMostPixels,
         "the image of {} x {} pixels is larger than the limit of {} pixels; store it smaller",
         jpeg.read.image_width, jpeg.read.image_height, kMostPixels);
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
      JSAMPROW row = const_cast<JSAMPROW>(image.row(y));  // libjpeg reads it only
      jpeg_write_scanlines(&jpeg.write, &row, 1);
    }
    jpeg_finish_compress(&jpeg.write);
  });
  return out;
}

}  // namespace trainctl::data
