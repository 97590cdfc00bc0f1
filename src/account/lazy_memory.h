// Memory that is asked for at once and taken as it is touched, in large pages where the system gives them: a page fault
// for every 4 KiB costs as much as sorting what is in them. Header only.
#pragma once

#include <sys/mman.h>

#include <cstddef>
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
  explicit LazyMemory(std::size_t count) : bytes_(count * sizeof(Element)) {
    if (bytes_ == 0) return;
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    elements_ = static_cast<Element*>(memory);
    // Not the beginning, which may be all that is needed. Where there are no large pages, small ones do.
    if (bytes_ > kSmall) ::madvise(static_cast<char*>(memory) + kSmall, bytes_ - kSmall, MADV_HUGEPAGE);
  }
  ~LazyMemory() {
    if (elements_ != nullptr) ::munmap(elements_, bytes_);
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
    std::swap(elements_, other.elements_);
    std::swap(bytes_, other.bytes_);
  }

 private:
  static constexpr std::size_t kSmall = std::size_t{1} << 20;

  Element* elements_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace flyball
