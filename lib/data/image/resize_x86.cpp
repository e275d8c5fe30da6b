#include "data/image/resize.hpp"

#include <immintrin.h>

#include <cstring>

namespace trainctl::data {
namespace {

namespace sse4 {

#define TARGET __attribute__((target("sse4.1")))
#define INLINE __attribute__((target("sse4.1"), always_inline)) inline
#define MM(name) _mm_##name

using Vector = __m128i;
constexpr int kRows = 1;

INLINE Vector load(const void* from) { return _mm_loadu_si128(static_cast<const Vector*>(from)); }
INLINE Vector broadcast(__m128i lane) { return lane; }
INLINE Vector multiply_add(Vector sum, Vector a, Vector b) {
  return _mm_add_epi32(sum, _mm_madd_epi16(a, b));
}
INLINE void store_words(std::int16_t* out, Vector ab, Vector cd) {
  _mm_storeu_si128(reinterpret_cast<Vector*>(out), ab);
  _mm_storeu_si128(reinterpret_cast<Vector*>(out) + 1, cd);
}
INLINE Vector lanes_of(const HorizontalJob& job, std::int64_t at) { return load(job.in[0] + at); }
INLINE void store_lanes(const HorizontalJob& job, std::int64_t at, Vector bytes,
                        std::size_t count) {
  std::memcpy(job.out[0] + at, &bytes, count);
}
void narrow_vertical(const VerticalJob& job) { vertical_from(job, 0); }

#include "data/image/resize_vector.inc"

}  // namespace sse4

namespace avx2 {

#define TARGET __attribute__((target("avx2")))
#define INLINE __attribute__((target("avx2"), always_inline)) inline
#define MM(name) _mm256_##name

using Vector = __m256i;
constexpr int kRows = 2;

INLINE Vector load(const void* from) {
  return _mm256_loadu_si256(static_cast<const Vector*>(from));
}
INLINE Vector broadcast(__m128i lane) { return _mm256_broadcastsi128_si256(lane); }
INLINE Vector multiply_add(Vector sum, Vector a, Vector b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
// AVX2 unpacks and packs within 128-bit lanes, so the lanes are exchanged at the end.
INLINE void store_words(std::int16_t* out, Vector ab, Vector cd) {
  auto* to = reinterpret_cast<Vector*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(ab, cd, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(ab, cd, 0x31));
}
INLINE Vector lanes_of(const HorizontalJob& job, std::int64_t at) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(sse4::lanes_of(job, at)),
                                 sse4::load(job.in[1] + at), 1);
}
INLINE void store_lanes(const HorizontalJob& job, std::int64_t at, Vector bytes,
                        std::size_t count) {
  const __m128i lanes[kRows] = {_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
  for (std::size_t row = 0; row < kRows; ++row) std::memcpy(job.out[row] + at, &lanes[row], count);
}
void narrow_vertical(const VerticalJob& job) { sse4::vertical(job); }

#include "data/image/resize_vector.inc"

}  // namespace avx2

namespace avx512 {

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vnni")))
#define INLINE __attribute__((target("avx512f,avx512bw,avx512vnni"), always_inline)) inline
#define MM(name) _mm512_##name

using Vector = __m512i;
constexpr int kRows = 4;

INLINE Vector load(const void* from) { return _mm512_loadu_si512(from); }
INLINE Vector broadcast(__m128i lane) { return _mm512_broadcast_i32x4(lane); }
INLINE Vector multiply_add(Vector sum, Vector a, Vector b) {
  return _mm512_dpwssd_epi32(sum, a, b);
}
INLINE void store_words(std::int16_t* out, Vector ab, Vector cd) {
  const Vector first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const Vector second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  _mm512_storeu_si512(out, _mm512_permutex2var_epi64(ab, first, cd));
  _mm512_storeu_si512(out + 32, _mm512_permutex2var_epi64(ab, second, cd));
}
INLINE Vector lanes_of(const HorizontalJob& job, std::int64_t at) {
  Vector lanes = _mm512_castsi128_si512(sse4::lanes_of(job, at));
  lanes = _mm512_inserti32x4(lanes, sse4::load(job.in[1] + at), 1);
  lanes = _mm512_inserti32x4(lanes, sse4::load(job.in[2] + at), 2);
  return _mm512_inserti32x4(lanes, sse4::load(job.in[3] + at), 3);
}
INLINE void store_lanes(const HorizontalJob& job, std::int64_t at, Vector bytes,
                        std::size_t count) {
  const __m128i lanes[kRows] = {_mm512_castsi512_si128(bytes), _mm512_extracti32x4_epi32(bytes, 1),
                                _mm512_extracti32x4_epi32(bytes, 2),
                                _mm512_extracti32x4_epi32(bytes, 3)};
  for (std::size_t row = 0; row < kRows; ++row) std::memcpy(job.out[row] + at, &lanes[row], count);
}
void narrow_vertical(const VerticalJob& job) { avx2::vertical(job); }

#include "data/image/resize_vector.inc"

}  // namespace avx512

}  // namespace

const std::vector<ResizeKernels>& resize_kernels() {
  static const std::vector<ResizeKernels> all = [] {
    std::vector<ResizeKernels> found{scalar_resize()};
    const auto add = [&](bool usable, const ResizeKernels& kernels) {
      if (usable) found.push_back(kernels);
    };
    add(__builtin_cpu_supports("sse4.1"), {"sse4", sse4::kRows, sse4::vertical, sse4::horizontal});
    add(__builtin_cpu_supports("avx2"), {"avx2", avx2::kRows, avx2::vertical, avx2::horizontal});
    add(__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni"),
        {"avx512", avx512::kRows, avx512::vertical, avx512::horizontal});
    return found;
  }();
  return all;
}

}  // namespace trainctl::data
