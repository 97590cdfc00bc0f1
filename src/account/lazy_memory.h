// Memory that is asked for at once and taken as it is touched, in large pages where the system gives them: a page fault
// for every 4 KiB costs as much as sorting what is in them. Header only.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace flyball {

// An array of `count` elements without a value. Throws std::bad_alloc.
template <class Element>
class LazyMemory {
  static_assert(std::is_trivially_copyable_v<Element>);

 public:
  LazyMemory() = default;
  explicit LazyMemory(std::size_t count) {
    if (count == 0) return;
    const std::size_t bytes = count * sizeof(Element);
    // The first quarter of a megabyte, which may be all that is touched, lies before a large page's boundary, and the
    // last large page is whole: the system gives none that reaches beyond the mapping.
    bytes_ = bytes <= kSmall ? bytes : kSmall + (bytes - kSmall + kLarge - 1) / kLarge * kLarge + kLarge;
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    char* begin = static_cast<char*>(memory_);
    if (bytes > kSmall) {
      char* const large =
          begin + kSmall + (kLarge - (reinterpret_cast<std::uintptr_t>(begin) + kSmall) % kLarge) % kLarge;
      ::madvise(large, (bytes - kSmall + kLarge - 1) / kLarge * kLarge,
                MADV_HUGEPAGE);  // or small ones, where it has none
      begin = large - kSmall;
    }
    elements_ = reinterpret_cast<Element*>(begin);
  }
  ~LazyMemory() {
    if (elements_ != nullptr) ::munmap(memory_, bytes_);
  }
  LazyMemory(LazyMemory&& other) noexcept { swap(other); }
  LazyMemory& operator=(LazyMemory&& other) noexcept {
    LazyMemory(std::move(other)).swap(*this);
    return *this;
  }
  LazyMemory(const LazyMemory&) = delete;
  LazyMemory& operator=(const LazyMemory&) = delete;

  [[nodiscard]] Element& operator[](std::size_t i) const { return elements_[i]; }
  [[nodiscard]] Element* begin() const { return elements_; }

  void swap(LazyMemory& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(elements_, other.elements_);
  }

 private:
  static constexpr std::size_t kSmall = std::size_t{1} << 18;
  static constexpr std::size_t kLarge = std::size_t{1} << 21;

  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  Element* elements_ = nullptr;
};

}  // namespace flyball
