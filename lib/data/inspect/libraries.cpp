#include "data/inspect/libraries.hpp"

#include "base/machine/shared_library.hpp"
#include "data/formats/table.hpp"
#include "data/image/codec/opencv.hpp"
#include "data/loader/host_memory.hpp"
#include "data/read_ahead/read_queue.hpp"
#include "data/text/tokenizer.hpp"

#include <dlfcn.h>
#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

namespace trainctl::data {
namespace {

#define TRAINCTL_TEXT_OF(word) #word
#define TRAINCTL_TEXT(word) TRAINCTL_TEXT_OF(word)
#ifdef LIBJPEG_TURBO_VERSION
constexpr const char* kJpegVersion = TRAINCTL_TEXT(LIBJPEG_TURBO_VERSION);
#else
constexpr const char* kJpegVersion = "of unknown version";
#endif

constexpr std::size_t kPage = 4096;

/// Reads the version of the library that one of our modules is linked with.
Library module_of(const char* name, const char* file, const char* symbol) {
  const char* cause = nullptr;
  void* found = find_in_module(file, symbol, cause);
  if (found == nullptr) return {name, "", cause == nullptr ? "unknown cause" : cause};
  return {name, reinterpret_cast<const char* (*)()>(found)(), ""};
}

Library curl() {
  void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  const char* cause = library == nullptr ? ::dlerror() : nullptr;
  void* symbol = library == nullptr ? nullptr : ::dlsym(library, "curl_version");
  if (symbol == nullptr) return {"libcurl", "", cause == nullptr ? "unknown cause" : cause};
  // The version string looks like "libcurl/7.88.1 OpenSSL/3.0.11 ...".
  const std::string all = reinterpret_cast<const char* (*)()>(symbol)();
  const std::size_t begin = all.find('/') + 1;
  return {"libcurl", all.substr(begin, all.find(' ') - begin), ""};
}

}  // namespace

std::vector<Library> linked_libraries() {
  return {{"libjpeg-turbo", kJpegVersion, ""},
          {"libpng", ::png_get_libpng_ver(nullptr), ""},
          {"zlib", ::zlibVersion(), ""}};
}

std::vector<Library> loaded_libraries() {
  return {module_of("opencv", kOpencvLibrary, kOpencvVersionSymbol),
          module_of("arrow", kParquetLibrary, kParquetVersionSymbol),
          module_of("sentencepiece", kSentencePieceLibrary, kSentencePieceVersionSymbol), curl()};
}

bool reads_through_uring() {
  Arena memory(kPage);
  return uring_queue(1, memory.bytes()) != nullptr;
}

}  // namespace trainctl::data
