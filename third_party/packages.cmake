# How each outside library is found. Nothing is vendored; Debian and Ubuntu package names stand in scripts/setup.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)  # libjpeg-turbo: the plain one has no jpeg_crop_scanline
find_package(PNG REQUIRED)
# The small half of it, which needs no descriptors, linked into the program: a verb should not wait for it to load.
set(Protobuf_USE_STATIC_LIBS ON)
find_package(Protobuf REQUIRED)
# Optional: WebP, BMP and TIFF. Found by hand, since Debian's config file comes only with all of OpenCV.
find_path(TRAINCTL_OPENCV_INCLUDE opencv2/imgcodecs.hpp PATH_SUFFIXES opencv4)
find_library(TRAINCTL_OPENCV_CORE opencv_core)
find_library(TRAINCTL_OPENCV_IMGCODECS opencv_imgcodecs)
# Optional: cold data read through io_uring; else by threads.
find_path(TRAINCTL_URING_INCLUDE liburing.h)
find_library(TRAINCTL_URING uring)
find_path(TRAINCTL_XXHASH_INCLUDE xxhash.h REQUIRED)
# CRC-32C with the instructions of whatever CPU it runs on.
find_path(TRAINCTL_ISAL_INCLUDE isa-l/crc.h REQUIRED)
find_library(TRAINCTL_ISAL isal REQUIRED)
# SHA-256. The archive, since loading the shared library takes a fifth of the time of a short command.
find_path(TRAINCTL_CRYPTO_INCLUDE openssl/sha.h REQUIRED)
find_library(TRAINCTL_CRYPTO NAMES libcrypto.a crypto REQUIRED)
# Lists of S3; the archive, as above.
find_path(TRAINCTL_PUGIXML_INCLUDE pugixml.hpp REQUIRED)
find_library(TRAINCTL_PUGIXML NAMES libpugixml.a pugixml REQUIRED)
# The ledger of a sweep.
find_path(TRAINCTL_SQLITE_INCLUDE sqlite3.h REQUIRED)
find_library(TRAINCTL_SQLITE sqlite3 REQUIRED)
# Loaded when the first remote path is opened, so only its header is needed here.
find_path(TRAINCTL_CURL_INCLUDE curl/curl.h REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/arrow.cmake)
if(TRAINCTL_ENGINE)
  include(${CMAKE_CURRENT_LIST_DIR}/torch.cmake)
endif()
