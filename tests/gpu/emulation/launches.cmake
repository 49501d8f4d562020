# Rewrites the kernel launches of a .cu file for the emulation (kernel_code.h). All other code and the line numbers stay the same.
# Usage: cmake -DFROM=rows.cu -DTO=rows.cc -P launches.cmake
file(READ "${FROM}" text)
set(argument "([A-Za-z0-9_]+)")
string(REGEX REPLACE
    "([a-z_]+(<[A-Za-z0-9_:, /]+>)?)<<<${argument}, ${argument}, ${argument}, ${argument}>>>\\(\\*args\\)"
    "EMULATION_LAUNCH((\\1), \\3, \\4, \\5, \\6, *args)" launched "${text}")
if(launched MATCHES "[^\n]*<<<[^\n]*")
    message(FATAL_ERROR "${FROM}: launches.cmake cannot rewrite\n${CMAKE_MATCH_0}\n"
        "It rewrites kernel<<<blocks, threads, bytes, stream>>>(*args), with names and numbers as arguments.")
endif()
string(REGEX MATCHALL "EMULATION_LAUNCH" launches "${launched}")
if(NOT launches)
    message(FATAL_ERROR "${FROM} launches no kernel")
endif()
file(WRITE "${TO}" "#line 1 \"${FROM}\"\n${launched}")
