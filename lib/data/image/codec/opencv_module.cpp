#include "data/image/codec/opencv.hpp"

#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>

#include <iostream>
#include <streambuf>

using trainctl::data::OpencvImage;
using trainctl::data::OpencvResult;

namespace {

thread_local bool silent = false;

/// Suppresses the messages about damaged files that OpenCV prints to std::cerr in decoding threads.
class MutedBuffer final : public std::streambuf {
 public:
  explicit MutedBuffer(std::streambuf* next) : next_(next) {}

 protected:
  int_type overflow(int_type c) override {
    return silent || traits_type::eq_int_type(c, traits_type::eof())
               ? traits_type::not_eof(c)
               : next_->sputc(traits_type::to_char_type(c));
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    return silent ? count : next_->sputn(text, count);
  }
  int sync() override { return silent ? 0 : next_->pubsync(); }

 private:
  std::streambuf* next_;
};

bool make_quiet() {
  cv::setNumThreads(1);
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  std::cerr.rdbuf(new MutedBuffer(std::cerr.rdbuf()));  // leaked: std::cerr outlives everything
  return true;
}

/// Returns the upper 8 bits of a sample.
std::uint8_t upper(std::uint8_t sample) { return sample; }
std::uint8_t upper(std::uint16_t sample) { return static_cast<std::uint8_t>(sample >> 8); }

/// Converts gray, BGR or BGRA to RGB.
template <class Sample>
void copy_as_rgb(const cv::Mat& from, std::uint8_t* out) {
  const int channels = from.channels();
  const int red = channels == 1 ? 0 : 2;
  const int green = channels == 1 ? 0 : 1;
  for (int y = 0; y < from.rows; ++y) {
    const auto* pixel = from.ptr<Sample>(y);
    for (int x = 0; x < from.cols; ++x, pixel += channels, out += 3) {
      out[0] = upper(pixel[red]);
      out[1] = upper(pixel[green]);
      out[2] = upper(pixel[0]);
    }
  }
}

// IMREAD_COLOR would blend a TIFF with its alpha.
OpencvResult decode(const OpencvImage& image) {
  const cv::Mat file(1, static_cast<int>(image.size), CV_8UC1, const_cast<std::byte*>(image.bytes));
  const cv::Mat found =
      cv::imdecode(file, image.is_tiff ? cv::IMREAD_UNCHANGED
                                       : cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  if (found.empty()) return OpencvResult::damaged;
  if (found.rows != image.height || found.cols != image.width) return OpencvResult::other_extents;
  if (found.channels() == 2) return OpencvResult::unsupported;
  switch (found.depth()) {
    case CV_8U: copy_as_rgb<std::uint8_t>(found, image.out); break;
    case CV_16U: copy_as_rgb<std::uint16_t>(found, image.out); break;
    default: return OpencvResult::unsupported;
  }
  return OpencvResult::decoded;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) OpencvResult trainctl_opencv_decode_2(
    const OpencvImage& image) {
  static const bool quiet = make_quiet();
  OpencvResult result = OpencvResult::damaged;
  silent = true;
  try {
    if (quiet) result = decode(image);
  } catch (const std::exception&) {
    result = OpencvResult::damaged;
  }
  silent = false;
  return result;
}

extern "C" __attribute__((visibility("default"))) const char* trainctl_opencv_version() {
  return CV_VERSION;
}
