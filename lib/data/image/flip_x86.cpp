#include "data/image/flip_kernels.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

// Rows are read from their end. No kernel touches a byte outside its two rows: the next one may be another thread's.

namespace trainctl::data {
namespace {

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vbmi")))

__m128i load(const std::uint8_t* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
void store(std::uint8_t* to, __m128i bytes) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes); }

AVX2 void mirror_one_avx2(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  const __m128i reversed = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m256i both = _mm256_broadcastsi128_si256(reversed);
  std::int64_t left = width;
  for (; left >= 32; left -= 32, to += 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + left - 32));
    const __m256i turned = _mm256_shuffle_epi8(_mm256_permute2x128_si256(bytes, bytes, 1), both);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), turned);
  }
  for (; left >= 16; left -= 16, to += 16) store(to, _mm_shuffle_epi8(load(from + left - 16), reversed));
  if (left > 0 && width >= 16) {
    // The last 16 bytes once more, over some that are there already.
    store(to + left - 16, _mm_shuffle_epi8(load(from), reversed));
  } else {
    while (left > 0) *to++ = from[--left];
  }
}

// Five pixels at a time: 16 bytes are read and written, one of them too many, which the next step overwrites.
AVX2 void mirror_three_avx2(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  const __m128i after_one = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
  std::int64_t left = 3 * width;
  for (; left >= 18; left -= 15, to += 15) store(to, _mm_shuffle_epi8(load(from + left - 16), after_one));
  for (; left > 0; left -= 3, to += 3) std::copy_n(from + left - 3, 3, to);
}

constexpr __mmask64 lowest(std::int64_t bytes) { return bytes >= 64 ? ~__mmask64{0} : (__mmask64{1} << bytes) - 1; }

// The masked form: GCC 12 warns of the other one's own "undefined" operand.
AVX512 __m512i permuted(__m512i bytes, __m512i places) {
  return _mm512_maskz_permutexvar_epi8(~__mmask64{0}, places, bytes);
}

AVX512 void mirror_one_avx512(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  alignas(64) std::uint8_t places[64];
  for (int i = 0; i < 64; ++i) places[i] = static_cast<std::uint8_t>(63 - i);
  const __m512i reversed = _mm512_load_si512(places);
  std::int64_t left = width;
  for (; left >= 64; left -= 64, to += 64) {
    _mm512_storeu_si512(to, permuted(_mm512_loadu_si512(from + left - 64), reversed));
  }
  if (left == 0) return;
  const __mmask64 mask = lowest(left);
  const __m512i shift = _mm512_set1_epi8(static_cast<char>(64 - left));
  const __m512i bytes = _mm512_maskz_loadu_epi8(mask, from);
  _mm512_mask_storeu_epi8(to, mask, permuted(bytes, _mm512_sub_epi8(reversed, shift)));
}

// 21 pixels at a time.
AVX512 void mirror_three_avx512(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  alignas(64) std::uint8_t places[64] = {};
  for (int i = 0; i < 63; ++i) places[i] = static_cast<std::uint8_t>(60 - i / 3 * 3 + i % 3);
  const __m512i reversed = _mm512_load_si512(places);
  std::int64_t left = 3 * width;
  for (; left > 63; left -= 63, to += 63) {
    const __m512i bytes = _mm512_maskz_loadu_epi8(lowest(63), from + left - 63);
    _mm512_mask_storeu_epi8(to, lowest(63), permuted(bytes, reversed));
  }
  const __mmask64 mask = lowest(left);
  const __m512i shift = _mm512_set1_epi8(static_cast<char>(63 - left));
  const __m512i bytes = _mm512_maskz_loadu_epi8(mask, from);
  _mm512_mask_storeu_epi8(to, mask, permuted(bytes, _mm512_sub_epi8(reversed, shift)));
}

}  // namespace

void add_vector_kernels(std::vector<MirrorKernels>& kernels) {
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi")) {
    kernels.push_back({"avx512", mirror_one_avx512, mirror_three_avx512});
  }
  if (__builtin_cpu_supports("avx2")) kernels.push_back({"avx2", mirror_one_avx2, mirror_three_avx2});
}

}  // namespace trainctl::data
