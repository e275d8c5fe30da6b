# Finds the outside libraries. Nothing is vendored; scripts/setup has the Debian and Ubuntu package names.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)  # libjpeg-turbo: plain libjpeg has no jpeg_crop_scanline
find_package(PNG REQUIRED)
# The program links protobuf-lite statically, so that a verb does not wait for a library to load. Our messages need no
# descriptors.
set(Protobuf_USE_STATIC_LIBS ON)
find_package(Protobuf REQUIRED)
# Optional, for WebP, BMP and TIFF. Searched by path, because Debian's config file comes only with all of OpenCV.
find_path(TRAINCTL_OPENCV_INCLUDE opencv2/imgcodecs.hpp PATH_SUFFIXES opencv4)
find_library(TRAINCTL_OPENCV_CORE opencv_core)
find_library(TRAINCTL_OPENCV_IMGCODECS opencv_imgcodecs)
# Optional: io_uring reads cold data; without it, threads do.
find_path(TRAINCTL_URING_INCLUDE liburing.h)
find_library(TRAINCTL_URING uring)
# Optional, for `tokenizer: sentencepiece`. The program loads a module with it when it is first needed.
find_path(TRAINCTL_SENTENCEPIECE_INCLUDE sentencepiece_trainer.h)
find_library(TRAINCTL_SENTENCEPIECE sentencepiece)
find_library(TRAINCTL_SENTENCEPIECE_TRAIN sentencepiece_train)
find_path(TRAINCTL_XXHASH_INCLUDE xxhash.h REQUIRED)
# Provides CRC-32C with the instructions of the CPU at run time.
find_path(TRAINCTL_ISAL_INCLUDE isa-l/crc.h REQUIRED)
find_library(TRAINCTL_ISAL isal REQUIRED)
# Provides SHA-256. The archive is preferred, because loading the shared library takes a fifth of the time of a short command.
find_path(TRAINCTL_CRYPTO_INCLUDE openssl/sha.h REQUIRED)
find_library(TRAINCTL_CRYPTO NAMES libcrypto.a crypto REQUIRED)
# Parses the listings of S3; the archive is preferred for the same reason.
find_path(TRAINCTL_PUGIXML_INCLUDE pugixml.hpp REQUIRED)
find_library(TRAINCTL_PUGIXML NAMES libpugixml.a pugixml REQUIRED)
# Stores the ledger of a sweep.
find_path(TRAINCTL_SQLITE_INCLUDE sqlite3.h REQUIRED)
find_library(TRAINCTL_SQLITE sqlite3 REQUIRED)
# The program loads libcurl when it opens the first remote path, so only its header is needed here.
find_path(TRAINCTL_CURL_INCLUDE curl/curl.h REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/arrow.cmake)
if(TRAINCTL_ENGINE)
  include(${CMAKE_CURRENT_LIST_DIR}/torch.cmake)
endif()
