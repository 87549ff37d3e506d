module halfwarp/strangers

go 1.19
