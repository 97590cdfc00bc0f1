// What a header needs that declares described types (base/record.h), but neither reads nor writes them: whoever
// includes it need not compile a JSON library.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace flyball {

template <class T>
class Record;

// What an unknown name is read as: specialised for enumerations of which a newer program may send others. Of the rest
// (all have names, base/names.h) an unknown name is refused.
template <class E>
inline constexpr auto kUnknownName = nullptr;

}  // namespace flyball
