#include <cstdio>

int main() {
  std::puts("trainctl");
  return 0;
}
