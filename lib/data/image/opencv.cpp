#include "data/image/opencv.hpp"

#include "base/error.hpp"
#include "data/image/extents.hpp"
#include "data/image/opencv/module.hpp"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <string>

namespace trainctl::data {
namespace {

namespace fs = std::filesystem;

/// Beside the program or in the lib folder next to it; else where the loader looks.
std::string library_path() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& candidate :
       {folder / ".." / "lib" / kOpencvLibrary, folder / kOpencvLibrary}) {
    std::error_code ignored;
    if (fs::exists(candidate, ignored)) return candidate.string();
  }
  return kOpencvLibrary;
}

OpencvDecode load() {
  void* handle = ::dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = handle == nullptr ? nullptr : ::dlsym(handle, kOpencvSymbol);
  const char* cause = symbol == nullptr ? ::dlerror() : nullptr;
  ENSURE(resource, symbol != nullptr,
         "WebP, BMP and TIFF files need OpenCV, and {} cannot be loaded: {}", kOpencvLibrary,
         cause == nullptr ? "unknown cause" : cause);
  return reinterpret_cast<OpencvDecode>(symbol);
}

OpencvDecode opencv_decode() {
  static const OpencvDecode decode = load();
  return decode;
}

}  // namespace

ImageShape OpencvDecoder::open(std::span<const std::byte> file) {
  file_ = {};
  ENSURE(data, file.size() <= std::size_t{std::numeric_limits<int>::max()},
         "the image file has {} bytes; at most {}", file.size(), std::numeric_limits<int>::max());
  const auto [height, width] = header_extents(file, limits_);
  shape_ = {height, width, 3};
  opencv_decode();
  file_ = file;
  return shape_;
}

void OpencvDecoder::decode(const Box& box, Reading, std::uint8_t* out) {
  ASSERT(!file_.empty());
  const bool whole = box == Box{0, 0, shape_.height, shape_.width};
  if (!whole) pixels_.resize(shape_.bytes());
  std::uint8_t* pixels = whole ? out : pixels_.data();
  ENSURE(data, opencv_decode()({file_.data(), file_.size(), shape_.height, shape_.width, pixels}),
         "damaged image: OpenCV cannot decode it");
  if (whole) return;
  const ImageView part = ImageView(pixels, shape_).window(box);
  for (std::int64_t y = 0; y < box.height; ++y, out += part.row_bytes()) {
    std::memcpy(out, part.row(y), part.row_bytes());
  }
}

}  // namespace trainctl::data
