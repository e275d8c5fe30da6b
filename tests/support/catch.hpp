#pragma once

// Only this file depends on Catch2's version: Debian 12 has 2.13, Ubuntu 24.04 has 3.4.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;

/// Returns a matcher for texts that contain `part`; Catch2 3 has renamed the matcher.
inline auto Contains(const std::string& part) { return Catch::Matchers::ContainsSubstring(part); }
#else
#include <catch2/catch.hpp>
using Catch::Matchers::Contains;
#endif
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

/// Ends the process with exit code 4, which CTest shows as a skipped test.
[[noreturn]] void skip(const char* reason);
