#include "data/image/opencv/module.hpp"

#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>

#include <iostream>
#include <streambuf>

using trainctl::data::OpencvImage;

namespace {

thread_local bool silent = false;

/// OpenCV writes to std::cerr what it does not like about a file: of the threads that are decoding
/// nothing comes through.
class Muffler final : public std::streambuf {
 public:
  explicit Muffler(std::streambuf* next) : next_(next) {}

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
  std::cerr.rdbuf(new Muffler(std::cerr.rdbuf()));  // never freed: std::cerr outlives everything
  return true;
}

bool decode(const OpencvImage& image) {
  const cv::Mat file(1, static_cast<int>(image.size), CV_8UC1, const_cast<std::byte*>(image.bytes));
  const cv::Mat bgr = cv::imdecode(file, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  if (bgr.type() != CV_8UC3 || bgr.rows != image.height || bgr.cols != image.width) return false;
  std::uint8_t* out = image.out;
  for (int y = 0; y < bgr.rows; ++y) {
    const std::uint8_t* from = bgr.ptr<std::uint8_t>(y);
    for (int x = 0; x < bgr.cols; ++x, from += 3, out += 3) {
      out[0] = from[2];
      out[1] = from[1];
      out[2] = from[0];
    }
  }
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool trainctl_opencv_decode_1(
    const OpencvImage& image) {
  static const bool quiet = make_quiet();
  bool sound = false;
  silent = true;
  try {
    sound = quiet && decode(image);
  } catch (const std::exception&) {
    sound = false;
  }
  silent = false;
  return sound;
}
